// Classes of Python that do in an older PyTorch what a later one has a call for: custom collectives of FSDP2.
//
// FSDP2 calls them by keyword (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_all_gather and
// foreach_reduce: output_tensor, input_tensor, group, op, async_op), and allocates both buffers of a reduce-scatter
// with allocate(). docs/sweep.md shows them; python_lines.cpp prints those that settings need.
#pragma once

#include <string_view>

namespace foreshard {

/// Buffers of all-gathers in NCCL's symmetric memory, as PyTorch 2.12's set_symm_mem_for_comm() has them.
extern const std::string_view kSymmetricAllGather;
/// Buffers of reduce-scatters, likewise; adds alone (set_force_sum_reduction_for_comms).
extern const std::string_view kSymmetricReduceScatter;
/// A communicator of their own for reduce-scatters, as PyTorch 2.13's set_separate_reduce_scatter_group() makes.
extern const std::string_view kSeparateReduceScatter;

}  // namespace foreshard
