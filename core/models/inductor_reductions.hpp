// How Inductor sums over rows: gradients of norms' weights (torch/_inductor, PyTorch 2.11).
//
// Who: compiled_block_back.cpp. Pure.
#pragma once

#include <cstdint>

namespace foreshard::model {

/// MixOrderReduction.can_fuse (scheduler.py): a norm's weight gradient is summed in the kernel of its input's.
[[nodiscard]] bool mixes_orders(std::uint64_t rows, std::uint64_t columns);
/// Partial sums of such a kernel: _pick_split_size (codegen/triton.py) has the rows of each.
[[nodiscard]] std::uint64_t mixed_splits(std::uint64_t rows, std::uint32_t sm_count);
/// Partial sums of a kernel of their own: outer_reduction_splits (reduction_split_factor in choices.py), of fewer than
/// 512 elements for each resident thread; sizes are taken to be powers of two.
[[nodiscard]] std::uint64_t outer_splits(std::uint64_t rows, std::uint64_t columns, std::uint32_t sm_count);

}  // namespace foreshard::model
