// An explanation of a step's time in words: the same in the report, the JSON and the page. Pure; deterministic.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/explain_time/critical_path.hpp"
#include "core/explain_time/time_explanation.hpp"
#include "core/run/run.hpp"

namespace foreshard {

/// What all parts of a cause come to.
struct CauseTotal {
  Nanoseconds time;
  Nanoseconds exposed;  ///< of it, while a collective runs
  std::size_t parts = 0;
  std::size_t longest = kNoDeviceOp;  ///< in TimeExplanation::parts; none: no part has the cause
};
using CauseTotals = std::array<CauseTotal, kEnumSize<IdleCause>>;
[[nodiscard]] CauseTotals cause_totals(const TimeExplanation& explanation);

/// A row's title: "behind another collective".
[[nodiscard]] std::string_view title(IdleCause cause);
/// "all-gather of layers.3 (116 MiB)", or the kernel's name without its template arguments.
[[nodiscard]] std::string op_words(const Run& run, std::size_t op);
/// Why that interval: what was waited for, and what that waited for. One clause without a full stop.
[[nodiscard]] std::string chain_words(const Run& run, const IdlePart& part);
/// What the compute stream did next, for which it had to wait: "the copy-out of layers.3". One noun phrase.
[[nodiscard]] std::string next_words(const Run& run, const IdleGap& gap);
/// A stretch of the critical path that comes `count` times: "forward of layers.0 to layers.30", or what it waits for.
[[nodiscard]] std::string stretch_words(const Run& run, const TimeExplanation& explanation, const PathStretch& stretch,
                                        std::size_t count);
/// Where the compute stream waits longest for an optimizer on the CPU: what it takes, one clause. Else empty.
[[nodiscard]] std::string cpu_optimizer_clause(const Run& run, const TimeExplanation& explanation);
/// Why the step is not faster, in one sentence without a full stop.
[[nodiscard]] std::string time_headline(const Run& run, const TimeExplanation& explanation);

}  // namespace foreshard
