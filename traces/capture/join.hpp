// Joins the two sides of a capture: memory requests (from the snapshot) and kernels with host time (from
// the profiler trace, of later steps) meet between the same hook places, ordered by their place within the
// segment's host time.
#pragma once

#include <vector>

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"
#include "traces/capture/program_builder.hpp"
#include "traces/capture/timing.hpp"

namespace foreshard::traces {

/// The program of one step with its kernels and host times; labels are those of `timing`. Fails with
/// ErrorKind::mismatch when the hook places differ.
/// `first`: the step is a process's first, whose own lazy set-up (communicators, libraries, cudaMalloc) the
/// later, traced steps do not show: where the snapshot's segment took longer than the trace's host work, the
/// rest is put before the hook that ends it.
[[nodiscard]] Result<Program> join_step(const std::vector<PlacedOp>& memory, const StepTiming& timing,
                                        const std::vector<Unit>& units, bool first);

/// The same without a time side.
[[nodiscard]] Program memory_program(const std::vector<PlacedOp>& memory);

}  // namespace foreshard::traces
