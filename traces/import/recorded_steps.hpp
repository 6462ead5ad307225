// Steps and phases of a recording, from its hook places (hooks.hpp): one rule for both recordings.
//
// Who: import. Pure, deterministic.
#pragma once

#include <vector>

#include "core/run/run.hpp"
#include "traces/capture/hooks.hpp"

namespace foreshard::traces {

/// The annotations of a profiler trace, in the order of their starts. Names point into `run`.
[[nodiscard]] std::vector<Range> trace_ranges(const Run& run);

/// The complete steps, without peaks or device times.
[[nodiscard]] std::vector<StepRecord> step_records(const Hooks& hooks, Recording recording);

/// zero_grad, forward and backward of each microbatch, and optimizer of the complete steps; of one without a forward
/// kGraphReplay, which is what comes before its optimizer.
[[nodiscard]] std::vector<PhaseRecord> phase_records(const Hooks& hooks, Recording recording);

/// The largest number of microbatches in a complete step; 0 without one.
[[nodiscard]] std::uint32_t microbatches(const Hooks& hooks);

}  // namespace foreshard::traces
