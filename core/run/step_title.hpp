// A step's number in words: the same in every verb. Pure.
//
// A step's number is its place in its recording, from 0, everywhere. An import may have two recordings, a snapshot and
// a trace, of different steps; and torch.profiler counts its own, from before its schedule's wait and warm-up.
#pragma once

#include <cstdint>
#include <string>

#include "core/run/run.hpp"

namespace foreshard {

/// What the recording itself calls the step, "ProfilerStep#3" of torch.profiler's schedule: the range of that name that
/// the step begins in; empty without one.
[[nodiscard]] std::string recorded_name(const Run& run, const StepRecord& step);

/// "step 1"; with "of the trace" where the run has steps of two recordings, and the recording's own name where it has
/// one: "step 0 of the trace (ProfilerStep#3)".
[[nodiscard]] std::string step_title(const Run& run, Recording recording, std::int32_t index);

}  // namespace foreshard
