// What foreshard promises of its predictions, and which promises a row misses.
//
// Who: cli's accuracy, which says so in every table; tests/reference. The bars are the promise, not what was seen: a
// row that misses one stands in tests/reference/accuracy_baseline.csv with its error and may not get worse.
#pragma once

#include <string>
#include <vector>

#include "accuracy/accuracy.hpp"

namespace foreshard::accuracy {

/// Largest errors of one row.
struct Promises {
  // From a recording at other settings. Peaks are exact; where segment addresses are the driver model's they may be
  // `invented` off, and `clocked` where record_stream's frees make them a matter of time.
  double step = 0.04;               ///< GPU- or link-bound, against the median
  double host_bound_beyond = 0.08;  ///< outside the run's own range
  double invented = 0.001;
  double clocked = 0.03;
  // From a model and a machine profile alone. A step that a host binds, or may bind, of which nothing was measured
  // promises only that the prediction's own interval holds.
  double model_step = 0.10;
  double model_allocated = 0.01;
  double model_reserved = 0.03;
};
inline constexpr Promises kPromises;

/// Largest means over the GPU- or link-bound rows that nothing was fitted on.
inline constexpr double kMeanStep = 0.015;
inline constexpr double kMeanModelStep = 0.04;
inline constexpr double kMeanCollective = 0.05;  ///< 1 MiB to 1 GiB, alone

/// The metrics of `row` that miss: "step", "host-bound step", "interval", "requested", "allocated", "active",
/// "reserved"; empty for a row that differs from what was asked, or that is refused.
[[nodiscard]] std::vector<std::string> missed(const AccuracyRow& row);

}  // namespace foreshard::accuracy
