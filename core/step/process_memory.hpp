// Where the memory of one process lay: what a plan needs to repeat that process address by address.
//
// Best fit takes the lowest address of equal free blocks (CUDACachingAllocator.cpp, BlockComparatorSize), so two
// processes with the same requests can reserve different amounts. Which addresses cudaMalloc gives is the driver's
// choice, and depends on all that the process asked of it before: contexts, kernels, cuBLAS, NCCL, earlier passes.
//
// Who: run_steps() says it of every run; cli keeps it in the stores of executed ones.
#pragma once

#include <map>
#include <vector>

#include "core/allocator/snapshot.hpp"
#include "core/device/segment_log.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

struct ProcessMemory {
  std::vector<SnapshotSegment> initial_segments;  ///< Workload::initial_segments as they lay in this process
  std::map<Address, Address> older_blocks;        ///< by address in Workload::initial_segments, the block's here
  SegmentList segments;                           ///< what the driver gave after them
};

/// `workload` as if this process had been recorded: its initial segments, the program's places in them, and the
/// driver's addresses. At the workload's settings a plan of it then asks for the same segments and is given the same
/// addresses. `settings`: the process's; where they are not the workload's, its addresses say nothing of the workload's
/// settings, and it stays as it is. `workload` need not be adapted.
[[nodiscard]] Workload recorded_in(Workload workload, const Settings& settings, const ProcessMemory& memory);

}  // namespace foreshard
