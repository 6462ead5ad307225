// What accuracy's text, JSON and CSV share: the sums of one kind of row, and its words.
//
// Used by the accuracy_*.cpp of this folder. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/reports/accuracy_report.hpp"

namespace foreshard::cli {

using Seen = accuracy::AccuracyRow::Seen;

/// "held out", "fitted", "not stated"
[[nodiscard]] std::string_view word(Seen seen);
/// "all-gather, nccl, 64 MiB, 4 ranks (4 a node)"
[[nodiscard]] std::string describe(const sim::CollectiveRequest& request);
/// Predicted over measured, less one.
[[nodiscard]] double relative(Bytes predicted, Bytes measured);

/// The sums of one kind of prediction.
struct AccuracySummary {
  int predicted = 0;
  int refused = 0;            ///< of these nothing could be predicted
  int not_valid = 0;          ///< the plan itself says so: not in the sums of times
  int differs = 0;            ///< the run did something else than was asked of the prediction: in no sum
  accuracy::ErrorSum gpu;     ///< error of the step, GPU- and link-bound
  accuracy::ErrorSum step;    ///< the same of all, also where the host binds or may
  accuracy::ErrorSum host;    ///< distance beyond the run's own range, where the host binds or may
  accuracy::ErrorSum beyond;  ///< distance beyond the run's own range, all
  accuracy::ErrorSum allocated;
  accuracy::ErrorSum reserved;  ///< without record_stream, where time decides
  int exact = 0;                ///< all four peaks to the byte
  int clocked = 0;              ///< not exact, and follow record_stream
  int missed = 0;               ///< rows that miss a promise (accuracy/promises.hpp)
};
/// Of the rows of one kind, and with `seen` of those alone.
[[nodiscard]] AccuracySummary summarise(const accuracy::Accuracy& accuracy, accuracy::AccuracyRow::From from,
                                        std::optional<Seen> seen);

/// Collectives of 1 MiB to 1 GiB: smaller ones wait for the host.
[[nodiscard]] accuracy::ErrorSum sum_of(std::span<const accuracy::CollectiveCheck> checks);

}  // namespace foreshard::cli
