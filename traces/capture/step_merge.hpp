// Several recorded steps into one: which of them issue the same device ops, and what each interval and
// duration is taken to be. Inner part of timing.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/run/run.hpp"
#include "sim/calibrate/contention_out.hpp"
#include "traces/capture/step_calls.hpp"
#include "traces/capture/timing.hpp"

namespace foreshard::traces {

/// The largest group of steps with the same hook places, sections and op names; of equal groups the one
/// that ends last. Ops after the last hook place do not count: a recording ends there.
[[nodiscard]] std::vector<std::size_t> equal_steps(const Run& run, std::span<const StepCalls> steps);

/// The stream that most ops outside sections go to; StreamId 0 where there are none.
[[nodiscard]] StreamId compute_stream(const Run& run, std::span<const StepCalls> steps);

/// The roles of a section's ops, in order of its items.
[[nodiscard]] std::vector<SectionRole> roles_of(const Run& run, const StepSection& section);

/// Numbers of the steps by hook places, ops and grids, in the order in which they come; as equal_steps, ops after the
/// last hook place do not count. Empty where all are alike.
[[nodiscard]] std::vector<std::vector<std::size_t>> steps_by_size(const Run& run, std::span<const StepCalls> steps);

/// Merges the steps (at least one, all equal by equal_steps). `followed[i]`: step i ends where another
/// begins, so what comes after its optimizer is known; it is put before the step's first hook place.
/// `groups`: the trace's process groups, by communicator. `stats` of the result is empty. Labels, process groups and
/// streams go on behind those of `before`, where it is not null.
[[nodiscard]] StepTiming merge_steps(const Run& run, std::span<const StepCalls> steps,
                                     const std::vector<bool>& followed, std::span<const FreedOp> freed,
                                     StreamId compute, std::span<const ProcessGroup> groups,
                                     const StepTiming* before = nullptr);

}  // namespace foreshard::traces
