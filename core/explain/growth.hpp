// How a run's reserved memory grew: which request made each segment, what became of the segment, what of it is never
// needed, and the requests that were served only after segments had been given back.
//
// Who: cli's explain --growth. Pure: a Run in, plain data out; deterministic. Two walks over the allocator's events.
// A run of `segment_free` entries that a `segment_alloc` (or an `oom`) follows at once is a retry:
// release_cached_blocks or release_available_cached_blocks inside malloc (CUDACachingAllocator.cpp, 2.11; caching
// allocator 3.1 step 6). An empty_cache() behind which the very next entry is a new segment looks the same.
#pragma once

#include <optional>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"

namespace foreshard {

/// Memory that the driver gave during the record.
struct GrownSegment {
  std::int32_t step = -1;  ///< that asked for it; −1: before the first, or between two
  Bytes bytes = 0;
  StreamId stream;
  bool expandable = false;               ///< pages of an expandable segment
  BlockId request;                       ///< that found no block; invalid: not recorded
  std::optional<std::int32_t> released;  ///< step that gave it back; none: it stays
  Bytes unused = 0;                      ///< free at Growth::most_used; 0 of one that is gone by then
};

/// What a retry took of the host, by the clock of the record (microseconds in a snapshot). PyTorch writes
/// `segment_free` before it calls cudaFree and `segment_alloc` behind cudaMalloc (release_block and alloc_block,
/// CUDACachingAllocator.cpp), so what calls take lies between entries. The first cudaFree waits for the GPU.
struct RetryPrice {
  /// From the allocator's entry before to the first `segment_free`: the cudaMalloc that was refused, events that blocks
  /// wait for, and what the program did since that entry.
  Nanoseconds before;
  Nanoseconds wait;  ///< from there to the next entry: the first cudaFree (of a single one also cudaMalloc); 0 of pages
  Nanoseconds rest;  ///< from there to the request: the other cudaFree, and cudaMalloc

  [[nodiscard]] Nanoseconds all() const { return before + wait + rest; }
  RetryPrice& operator+=(const RetryPrice& other);
};

struct GrowthRetry {
  std::int32_t step = -1;
  BlockId request;             ///< that was served in the end; invalid: none was (out of memory), or it is not recorded
  Bytes requested = 0;         ///< unrounded; of one that failed rounded
  std::uint32_t released = 0;  ///< cudaFree calls
  Bytes released_bytes = 0;
  std::uint32_t made = 0;  ///< cudaMalloc calls behind them, up to the request
  bool failed = false;     ///< out of memory in spite of it
  RetryPrice took;
};

/// A step whose peak of reserved memory is above those of all steps before.
struct GrowthOfStep {
  std::int32_t step = -1;
  Bytes reserved = 0;                 ///< its peak
  std::vector<std::size_t> segments;  ///< places in Growth::segments that it made
};

struct Growth {
  std::vector<GrownSegment> segments;  ///< in order
  std::vector<GrowthRetry> retries;
  std::vector<GrowthOfStep> steps;  ///< by step; −1, what is before the first, leads them
  Bytes reserved = 0;               ///< the largest peak
  /// From the last growth on, when most was allocated.
  struct MostUsed {
    std::int32_t step = -1;
    Nanoseconds time;
    Bytes allocated = 0;
    Bytes reserved = 0;
  } most_used;
  std::uint64_t odd_events = 0;  ///< contradicted the others and were passed over
};

/// Fails (input) where the run holds no memory record.
[[nodiscard]] Result<Growth> explain_growth(const Run& run);

}  // namespace foreshard
