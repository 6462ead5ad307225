// What the driver's memory calls take of the host, by what they give and take back.
//
// Who: timed_memory.hpp. Plain data and pure functions. Measured by tools/record_check/retries.py --calls
// (docs/machines.md).
#pragma once

#include "core/base/quantity.hpp"

namespace foreshard::sim {

/// Each call is so long and so much more for each GiB. cudaFree and the unmapping of pages wait for the GPU before that
/// (release_cached_blocks, ExpandableSegment::unmapHandles: CUDACachingAllocator.cpp of PyTorch 2.11).
struct DriverCalls {
  Nanoseconds malloc;      ///< cudaMalloc
  Nanoseconds malloc_gib;  ///< … for each GiB
  Nanoseconds refused;   ///< a cudaMalloc that finds no memory; under set_per_process_memory_fraction PyTorch asks for
                         ///< none that it must not have (alloc_block, CUDACachingAllocator.cpp)
  Nanoseconds free;      ///< cudaFree
  Nanoseconds free_gib;  ///< … for each GiB
  Nanoseconds map;       ///< cuMemCreate, cuMemMap and cuMemSetAccess of a page of an expandable segment
  Nanoseconds unmap;     ///< cuMemUnmap and cuMemRelease of one
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

}  // namespace foreshard::sim
