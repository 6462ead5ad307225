// PyTorch's CUDA caching allocator (c10/cuda/CUDACachingAllocator.cpp, 2.11 rules): rounding, pools,
// best fit, splitting and merging, record_stream with event-deferred frees, garbage collection,
// expandable segments, private pools, memory fraction, retry and out of memory, all statistics.
//
// Who: core/step allocates through it on a simulated or real device; core/allocator/replay.hpp runs a
// recorded trace through it. Thread safety: one thread. Determinism: the same calls and the same
// answers of the two seams give the same addresses and statistics.
//
// Section numbers in comments are those of docs/notes/caching_allocator.md.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/allocator/allocator_event.hpp"
#include "core/allocator/config.hpp"
#include "core/allocator/snapshot.hpp"
#include "core/allocator/statistics.hpp"
#include "core/base/quantity.hpp"
#include "core/device/device_memory.hpp"
#include "core/device/stream_events.hpp"

namespace foreshard {

/// A live allocation's handle: an index that stays valid until the block is freed.
using BlockHandle = Id<struct BlockHandleTag>;

/// Why an allocation failed, in the numbers of PyTorch's own message.
struct OutOfMemory {
  Bytes requested = 0;  ///< n
  Bytes tried = 0;      ///< the segment that was asked of the driver
  Bytes allowed = 0;    ///< the memory fraction's limit, or the device's total
  Bytes device_free = 0;
  Bytes allocated = 0;
  Bytes reserved = 0;
  Bytes private_free = 0;  ///< free bytes cached in private pools, which the message counts as allocated
};

/// A memory limit that refuses nothing: as large as any.
inline constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max() - 1;

/// What a malloc that finds no block does under the memory limits [least, below) (caching allocator 3.1 step 6).
struct LimitOutcome {
  enum class Next : std::uint8_t {
    memory = 0,      ///< it gets its memory
    everything = 1,  ///< release_cached_blocks follows, and the last attempt
    failure = 2,     ///< out of memory, nothing more is released
  };

  Bytes least = 0;
  Bytes below = 0;                ///< no more than `least`: no limit alone has this outcome
  Bytes driver_below = 0;         ///< as `below`, if the driver may have refused what the limit does not
  std::vector<Address> segments;  ///< given back by garbage collection and for max_split_size (3.5, 3.6), in order
  Next next = Next::memory;
};

/// Every outcome of one malloc; the ranges of limits are disjoint and cover all.
struct LimitOutcomes {
  Bytes reserved = 0;  ///< by all pools, before the malloc
  Bytes segment = 0;   ///< what each attempt asks for (2.3)
  std::vector<LimitOutcome> outcomes;
};

/// 128 bits of a set of parts, in whatever order they are added. It tells sets apart, and protects against no one.
struct LayoutDigest {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  void add(std::initializer_list<std::uint64_t> words);  ///< a part, which is its words in order
  auto operator<=>(const LayoutDigest&) const = default;
};

struct PoolOptions {
  bool use_on_oom = false;
  bool no_split = false;
  MemoryKind kind = MemoryKind::device;  ///< anything else counts as a custom allocator
  bool of_capture = false;               ///< of a CUDA graph: asked only while it is captured (beginAllocateToPool)
};

/// Hears each trace entry in order. `time_us` is 0: the allocator knows no clock.
class AllocatorObserver {
 public:
  virtual ~AllocatorObserver() = default;
  virtual void on_event(const AllocatorEvent& event) = 0;
};

class CachingAllocator {
 public:
  /// `memory`, `events` and `observer` (may be null) must outlive the allocator.
  CachingAllocator(const AllocatorConfig& config, DeviceMemory& memory, StreamEvents& events,
                   AllocatorObserver* observer);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// 3.1. `size` 0 is not allowed here: PyTorch never reaches the allocator with it.
  [[nodiscard]] tl::expected<BlockHandle, OutOfMemory> malloc(Bytes size, StreamId stream, PoolId pool = kDefaultPool);
  /// 5.1.
  void free(BlockHandle block);
  /// 5.1. Marks a use on a stream other than the allocation's; ignored for the same stream.
  void record_stream(BlockHandle block, StreamId stream);
  /// 3.7: torch.cuda.empty_cache(). With a private pool: waits for that pool's events only and releases
  /// it if it is no longer in use.
  void empty_cache(PoolId pool = kDefaultPool);
  /// 5.2: frees the blocks whose events are complete. malloc does it by itself.
  void process_events();
  /// torch.cuda.set_per_process_memory_fraction, in bytes. Under kNoLimit nothing is refused or collected, but
  /// cached blocks age as under any limit (3.5).
  void set_limit(Bytes allowed);

  /// Whether a malloc would find a free block. Changes nothing; events are taken as they were last processed.
  [[nodiscard]] bool finds_block(Bytes size, StreamId stream, PoolId pool = kDefaultPool) const;
  /// What a malloc that finds none would do, by the memory limit. Changes nothing. Outcomes that give back more than
  /// `at_most` segments by garbage collection are left out. Pools flagged use_on_oom are not looked at.
  [[nodiscard]] LimitOutcomes limit_outcomes(Bytes size, StreamId stream, PoolId pool = kDefaultPool,
                                             std::size_t at_most = std::numeric_limits<std::size_t>::max()) const;
  /// The whole free cudaMalloc segments of the default pools, in the order in which empty_cache gives them back.
  [[nodiscard]] std::vector<Address> cached_segments() const;
  /// Whether a malloc would find room in `pending`, a freed block that waits for events, once it is free;
  /// false for a block that does not wait.
  [[nodiscard]] bool would_serve(BlockHandle pending, Bytes size, StreamId stream, PoolId pool) const;

  /// 6. A new private pool with use count 1.
  [[nodiscard]] PoolId create_pool(const PoolOptions& options);
  /// 6.3. Use count −1; at 0 the pool's free segments go at the next release of cached blocks.
  void release_pool(PoolId pool);

  [[nodiscard]] Address address(BlockHandle block) const;
  [[nodiscard]] Bytes block_size(BlockHandle block) const;  ///< what allocated_bytes counts

  [[nodiscard]] const AllocatorStatistics& statistics() const;
  void reset_peak_statistics();
  [[nodiscard]] MemoryPeaks peaks() const;
  /// Of all segments and blocks, handles aside. Where no block waits for an event and nothing is collected by age
  /// (3.5), it decides which addresses the same calls get until the DeviceMemory is asked for something.
  [[nodiscard]] LayoutDigest layout() const;
  /// Segments and blocks by address, as _snapshot() writes them (stale requested sizes included).
  [[nodiscard]] std::vector<SnapshotSegment> snapshot() const;

  /// Puts an expandable segment's virtual range in place, wholly unmapped, with its page grid's origin at
  /// `base`; adopt_segment then maps parts of it. The DeviceMemory is not asked.
  void adopt_range(Address base, StreamId stream, bool small_pool, PoolId pool = kDefaultPool);
  /// Puts a segment with given blocks in place, as if it had been there before (10.1); bytes between the
  /// blocks become free. Counts in the statistics like a malloc; no trace entries; the DeviceMemory is not
  /// asked. `stream` is taken as a StreamId. Returns live handles of the blocks that are not inactive, in
  /// address order: for a pending one the caller goes on with record_stream and free.
  /// Requires: blocks lie inside the segment in address order without overlap; an expandable one lies on
  /// unmapped pages of an adopted range (without one, a range is made that starts at the segment).
  std::vector<BlockHandle> adopt_segment(const SnapshotSegment& segment, PoolId pool = kDefaultPool);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace foreshard
