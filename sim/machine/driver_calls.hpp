// What the driver's memory calls take of the host, by what they give and take back.
//
// Who: timed_memory.hpp. Plain data and pure functions. Measured by tools/record_check/retries.py --calls
// (docs/machines.md).
#pragma once

#include <optional>

#include "core/base/quantity.hpp"

namespace foreshard::sim {

/// Each call is so long and so much more for each GiB. cudaFree and the unmapping of pages wait for the GPU before that
/// (release_cached_blocks, ExpandableSegment::unmapHandles: CUDACachingAllocator.cpp of PyTorch 2.11).
struct DriverCalls {
  Nanoseconds malloc;      ///< cudaMalloc
  Nanoseconds malloc_gib;  ///< … for each GiB
  Nanoseconds refused;     ///< a cudaMalloc that finds no memory
  Nanoseconds free;        ///< cudaFree
  Nanoseconds free_gib;    ///< … for each GiB
  Nanoseconds map;         ///< cuMemCreate, cuMemMap and cuMemSetAccess of a page of an expandable segment
  Nanoseconds unmap;       ///< cuMemUnmap and cuMemRelease of one
};

[[nodiscard]] inline Nanoseconds per_gib(Nanoseconds time, Bytes bytes) {
  return time.scaled(static_cast<double>(bytes) / static_cast<double>(kGiB));
}
[[nodiscard]] inline Nanoseconds malloc_time(const DriverCalls& calls, Bytes bytes) {
  return calls.malloc + per_gib(calls.malloc_gib, bytes);
}
[[nodiscard]] inline Nanoseconds free_time(const DriverCalls& calls, Bytes bytes) {
  return calls.free + per_gib(calls.free_gib, bytes);
}

/// The calls of a process under that limit, if any: there PyTorch refuses by itself
/// (set_per_process_memory_fraction; alloc_block of CUDACachingAllocator.cpp), and asks the driver for nothing.
[[nodiscard]] inline DriverCalls calls_under(DriverCalls calls, const std::optional<Bytes>& limit) {
  if (limit) calls.refused = {};
  return calls;
}

/// Pages of expandable segments are of 20 MiB, of the small pool's of 2 MiB (kLargeBuffer, kSmallBuffer).
[[nodiscard]] inline std::int64_t pages_of(Bytes mapped) {
  constexpr Bytes kLarge = 20 * kMiB, kSmall = 2 * kMiB;
  return static_cast<std::int64_t>(mapped % kLarge == 0 ? mapped / kLarge : mapped / kSmall);
}

}  // namespace foreshard::sim
