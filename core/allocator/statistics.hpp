// The allocator's statistics, with torch.cuda.memory_stats' keys (caching allocator 7).
#pragma once

#include <array>
#include <cstdint>

#include "core/base/quantity.hpp"

namespace foreshard {

/// One statistic: `current`, its `peak` since the last reset, and the sums of its rises and falls.
struct Statistic {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;
  std::int64_t freed = 0;

  void increase(std::int64_t amount) {
    current += amount;
    if (current > peak) peak = current;
    if (amount > 0) allocated += amount;
  }
  void decrease(std::int64_t amount) {
    current -= amount;
    if (amount > 0) freed += amount;
  }
};

/// The array statistics of one of the three groups `all`, `small_pool`, `large_pool`.
struct StatisticGroup {
  Statistic allocation;  ///< "allocation": number of live blocks
  Statistic segment;     ///< cudaMalloc segments; expandable ones do not count
  Statistic active;
  Statistic inactive_split;
  Statistic allocated_bytes;
  Statistic reserved_bytes;
  Statistic active_bytes;
  Statistic inactive_split_bytes;
  Statistic requested_bytes;
};

struct AllocatorStatistics {
  StatisticGroup all;
  StatisticGroup small_pool;
  StatisticGroup large_pool;
  std::int64_t num_alloc_retries = 0;
  std::int64_t num_ooms = 0;
  std::int64_t num_sync_all_streams = 0;
  std::int64_t num_device_alloc = 0;
  std::int64_t num_device_free = 0;
  Statistic oversize_allocations;
  Statistic oversize_segments;
};

/// The private pool of a CUDA graph: all of `reserved` is in use at every replay, though memory_stats() counts only
/// what the capture left allocated (`active`: gradients and outputs). Zeros: no graph.
struct GraphPool {
  Bytes reserved = 0;
  Bytes active = 0;
  /// In use at a replay beyond what memory_stats() calls active.
  [[nodiscard]] Bytes unseen() const { return reserved - active; }
  bool operator==(const GraphPool&) const = default;
};

/// The peaks that `plan` and `replay` report, in bytes, since the last reset.
struct MemoryPeaks {
  Bytes requested = 0;
  Bytes allocated = 0;
  Bytes active = 0;
  Bytes reserved = 0;
  bool operator==(const MemoryPeaks&) const = default;
};

}  // namespace foreshard
