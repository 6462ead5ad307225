// The allocator's four totals after each of a run's allocator events, as torch.cuda.memory_stats counts them
// (caching allocator 7). Used by core/compare and by the exports' memory counters. Pure; deterministic.
#pragma once

#include <cstdint>

#include "core/run/run.hpp"

namespace foreshard {

/// Bytes. May fall below 0 in a recording that contradicts itself.
struct MemoryTotals {
  std::int64_t requested = 0;  ///< of active blocks, before rounding
  std::int64_t allocated = 0;
  std::int64_t active = 0;  ///< allocated, and freed blocks that wait for an event
  std::int64_t reserved = 0;
  bool operator==(const MemoryTotals&) const = default;
};

/// Bytes that `allocated_bytes` counts for the block of an alloc or free_* event. A block never seen allocated, and
/// one whose size is not known, counts by its request, rounded as the allocator does.
[[nodiscard]] std::int64_t block_bytes(const Run& run, const AllocatorRecord& record);

/// The totals after `record`. Which total moves at which event: CUDACachingAllocator.cpp of PyTorch 2.11, malloc(),
/// free() (allocated), free_block() (active, requested), alloc_block() and release_block() (reserved).
void apply(const Run& run, const AllocatorRecord& record, MemoryTotals& totals);

/// Before the first event: the final state less all changes; 0 of a run without a final state.
[[nodiscard]] MemoryTotals totals_before(const Run& run);

}  // namespace foreshard
