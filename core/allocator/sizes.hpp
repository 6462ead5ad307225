// Sizes: how the caching allocator rounds a request and how large a segment it asks the driver for.
// Pure functions of the request and the configuration (caching allocator 2).
#pragma once

#include <algorithm>
#include <bit>

#include "core/allocator/config.hpp"
#include "core/base/quantity.hpp"

namespace foreshard {

// c10/cuda/CUDACachingAllocator.cpp and c10/core/CachingDeviceAllocator.h, 2.11.
inline constexpr Bytes kMinBlockSize = 512;           ///< all sizes are multiples of it
inline constexpr Bytes kSmallSize = kMiB;             ///< the largest rounded size of the small pool
inline constexpr Bytes kSmallBuffer = 2 * kMiB;       ///< segments of the small pool
inline constexpr Bytes kMinLargeAlloc = 10 * kMiB;    ///< below it large requests share a large_segment_size segment
inline constexpr Bytes kRoundLarge = 2 * kMiB;        ///< other segments are multiples of it
inline constexpr Bytes kMaxRequest = Bytes{1} << 60;  ///< 2.5: larger requests fail at once, without a trace

/// pow2div of 2.2: `size` up to the next of `divisions` equal steps between two powers of two.
/// Requires: both at least 1, `divisions` a power of two.
[[nodiscard]] constexpr Bytes round_up_power2_division(Bytes size, std::uint64_t divisions) {
  if (std::has_single_bit(size)) return size;
  const Bytes floor = std::bit_floor(size);
  const Bytes step = floor >> (std::bit_width(divisions) - 1);
  if (step == 0) return floor << 1;
  return (size + step - 1) & ~(step - 1);
}

/// round_size of 2.2: the block size of a request of `size` bytes.
[[nodiscard]] constexpr Bytes round_size(Bytes size, const AllocatorConfig& config) {
  if (size < kMinBlockSize) return kMinBlockSize;
  const int log2 = static_cast<int>(std::bit_width(size)) - 1;
  const std::uint64_t divisions =
      config.roundup_power2_divisions[static_cast<std::size_t>(std::clamp(log2 - 20, 0, 15))];
  if (divisions > 1 && size > kMinBlockSize * divisions) return round_up_power2_division(size, divisions);
  return (size + kMinBlockSize - 1) & ~(kMinBlockSize - 1);
}

/// 2.3: the cudaMalloc size for a rounded size.
[[nodiscard]] constexpr Bytes segment_size(Bytes rounded, const AllocatorConfig& config) {
  if (rounded <= kSmallSize) return kSmallBuffer;
  if (rounded < kMinLargeAlloc) return config.large_segment_size;
  return (rounded + kRoundLarge - 1) & ~(kRoundLarge - 1);
}

}  // namespace foreshard
