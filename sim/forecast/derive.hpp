// From a workload to its allocation programs: the host program runs once on a Device without time (host_order.hpp), and
// what it asked of the allocator, step by step, is written down.
//
// Pure and deterministic. Who: length_programs.hpp.
#pragma once

#include <vector>

#include "core/allocator/snapshot.hpp"
#include "core/base/error.hpp"
#include "core/workload/workload.hpp"
#include "sim/forecast/allocation_program.hpp"

namespace foreshard::sim {

/// What a process holds before its first step.
struct ProcessStart {
  std::vector<SnapshotSegment> older;  ///< what the allocator held before the recording began, as it lay there
  std::vector<Address> older_blocks;   ///< of those that are not free, in order of address: AllocationOp::free_older
  AllocationProgram setup;
};

struct DerivedSteps {
  ProcessStart start;
  std::vector<AllocationProgram> steps;
};

/// The programs of the first `steps` steps. `workload` must be adapted to `settings` (core/adapt/adapt.hpp).
/// Fails (usage) where frees do not follow the host's order alone (record_stream), for a CUDA graph, and where memory
/// lives for several steps before it is freed.
[[nodiscard]] Result<DerivedSteps> derive_steps(const Workload& workload, const Settings& settings, std::int32_t steps);

}  // namespace foreshard::sim
