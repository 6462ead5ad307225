// CUB's radix sort as PyTorch 2.11 calls it on sm90 (onesweep, keys and values of 8 bytes): its temporary storage and
// its launches.
//
// Source: cub/device/dispatch/dispatch_radix_sort.cuh; the sizes are those of recordings. Who: embedding_ops.cpp,
// hf_expert_ops.cpp. Not for other rooms.
#pragma once

#include "core/models/tape.hpp"

namespace foreshard::model {

struct RadixSort {
  std::uint64_t keys = 0;
  std::uint32_t bits = 64;                     ///< of a key that are sorted by
  std::uint64_t tile = 4096;                   ///< keys that a block takes; embedding's backward has another
  [[nodiscard]] std::uint64_t passes() const;  ///< of 8 bits
};

/// CUB's alias_temporaries: every part of a temporary storage is aligned to it, and once its base.
inline constexpr Bytes kCubAlignment = 256;

/// Both buffers' second halves, histograms of all passes, the tiles' states and the passes' counters.
[[nodiscard]] Bytes radix_sort_workspace(const RadixSort& sort);

/// Counters and histograms cleared, two kernels that fill them, then by pass the tiles' states cleared and one kernel.
void launch_radix_sort(Tape& tape, const RadixSort& sort);

}  // namespace foreshard::model
