// Kernels over many tensors at once: which tensor a block works on. The table of tensors is a kernel parameter.
#pragma once

#include <cstdint>

namespace foreshard::gpu {

/// A table's capacities: the small one keeps a launch cheap, the large one stays below the 32,764 bytes of parameters
/// that a kernel may have on sm_70 and later.
inline constexpr int kFewEntries = 16;
inline constexpr int kManyEntries = 480;

/// The entry whose blocks hold `block`: the last one with chunks_before ≤ block. Entries without blocks are not found.
template <class Entry>
__device__ inline const Entry& entry_of(const Entry* entries, std::uint32_t count, std::uint32_t block) {
  std::uint32_t low = 0;
  std::uint32_t high = count;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    if (entries[middle].chunks_before <= block)
      low = middle;
    else
      high = middle;
  }
  return entries[low];
}

}  // namespace foreshard::gpu
