// The step as the list of what it consisted of, one behind the other: compute of a unit, then what was waited for, then
// compute again; short enough to read for any number of layers.
//
// Who: cli's explain --time, the page. Pure; deterministic.
//
// The compute stream is the critical path, since the step is its time: a stretch of it is the work of one phase and
// unit, or a wait with its cause. Waits shorter than kShortWait, and work as short between others, belong to the
// stretch before them. Repeating patterns of up to eight stretches whose units are numbered on (layers.1, layers.2, …)
// and whose times are alike are folded into one row.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/explain_time/time_explanation.hpp"
#include "core/run/run.hpp"

namespace foreshard {

/// Waits below this part of the step are not worth a row of their own, nor ones below 20 us.
inline constexpr double kShortWait = 0.0005;

/// One stretch, or equal ones of several units.
struct PathStretch {
  bool computes = true;                  ///< else it waits, for `cause`
  IdleCause cause = IdleCause::issuing;  ///< of a wait
  std::string phase;                     ///< empty: between phases
  std::string unit;                      ///< of the first; empty: none
  std::string last_unit;                 ///< of the last of several; else equal to `unit`
  Nanoseconds start;                     ///< of the first
  Nanoseconds time;                      ///< of all
  Nanoseconds idle;                      ///< of `time`: short waits within the work
  std::size_t part = kNoDeviceOp;        ///< of a wait: the longest, in TimeExplanation::parts
};

/// A pattern of stretches that comes `count` times, one behind the other.
struct PathRow {
  std::size_t count = 1;
  std::vector<PathStretch> pattern;
};

/// Rows add up to the step.
[[nodiscard]] std::vector<PathRow> critical_path(const Run& run, const TimeExplanation& explanation);

}  // namespace foreshard
