// The allocator's state and its steps; the public class only forwards to it.
//
// Internal to core/allocator. The steps carry PyTorch's names (CUDACachingAllocator.cpp, 2.11) and live in
// one file a concept: allocation.cpp, release.cpp, expandable.cpp, free.cpp, adopt.cpp, snapshot.cpp.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/allocator/block_pool.hpp"
#include "core/allocator/caching_allocator.hpp"
#include "core/allocator/collection_passes.hpp"
#include "core/allocator/event_queues.hpp"
#include "core/allocator/sizes.hpp"

namespace foreshard {

using allocator_detail::Block;
using allocator_detail::BlockPool;
using allocator_detail::CollectionPasses;
using allocator_detail::ExpandableRange;
using allocator_detail::PrivatePool;
using allocator_detail::StreamBlocks;

struct CachingAllocator::Impl {
  Impl(const AllocatorConfig& with_config, DeviceMemory& with_memory, StreamEvents& with_events,
       AllocatorObserver* with_observer);

  /// One malloc while it looks for a block.
  struct Request {
    Bytes size = 0;                ///< n
    Bytes rounded = 0;             ///< s of 2.2
    Bytes segment = 0;             ///< a of 2.3
    StreamBlocks* home = nullptr;  ///< where it searches
    bool expandable = false;       ///< "expandable_active" of 3.1 step 4
    bool routed = false;           ///< to a private pool, under rules where that suspends polling and release
  };

  // allocation.cpp
  tl::expected<BlockHandle, OutOfMemory> malloc(Bytes size, StreamId stream, PoolId pool);
  [[nodiscard]] bool would_serve(BlockHandle pending, Bytes size, StreamId stream, PoolId pool);
  [[nodiscard]] bool fits(Bytes block, const Request& request) const;
  Request make_request(Bytes size, StreamId stream, PoolId pool);
  [[nodiscard]] Block* find_free_block(const Request& request) const;
  Block* get_free_block(const Request& request);
  Block* get_new_block(Request& request);
  Block* use_on_oom_block(Request& request);
  Block* alloc_block(const Request& request, bool retry);
  Block* alloc_segment(const Request& request);
  [[nodiscard]] bool over_limit(Bytes segment) const { return limited && total_reserved + segment > allowed; }
  [[nodiscard]] bool should_split(const Block& block, const Request& request) const;
  BlockHandle hand_out(Block* block, const Request& request);
  OutOfMemory out_of_memory(const Request& request);

  // free.cpp
  void free(Block* block);
  void record_stream(Block* block, StreamId stream);
  void process_events();
  void complete_event(Block* block);
  void free_block(Block* block);
  Bytes try_merge(Block* into, Block* from);

  // release.cpp
  void empty_cache(PoolId pool);
  [[nodiscard]] bool collects() const { return limited && config.garbage_collection_threshold > 0; }
  /// What garbage collection wants reserved memory to come down to under a limit (3.5).
  [[nodiscard]] Bytes collection_goal(Bytes limit) const;
  /// Cached blocks to release, in order, and whether they are what was asked for.
  struct Release {
    std::vector<Block*> blocks;
    bool enough = false;
  };
  [[nodiscard]] std::vector<Block*> collectable_blocks() const;
  /// `gone`, ascending by pointer: those that garbage collection has given back by then.
  [[nodiscard]] Release available_cached_blocks(const Request& request, const std::vector<Block*>& gone) const;
  void release_cached_blocks(PrivatePool* only);
  void release_blocks(BlockPool& pool);
  void release_block(Block* block);

  // limit_outcomes.cpp
  [[nodiscard]] LimitOutcomes limit_outcomes(const Request& request, std::size_t at_most) const;
  [[nodiscard]] Bytes least_limit(Bytes goal) const;
  [[nodiscard]] bool asks_driver(const Request& request) const;
  void add_outcomes(const Request& request, const std::vector<Block*>& collected, Bytes least, Bytes below,
                    LimitOutcomes& into) const;
  [[nodiscard]] std::vector<Address> cached_segments() const;

  // expandable.cpp
  Block* try_allocate_expandable_block(const Request& request);
  [[nodiscard]] Block* find_expandable_room(const Request& request) const;
  Block* find_expandable_block(const Request& request);
  ExpandableRange* add_range(Address base, Bytes page);
  Block* add_range_block(ExpandableRange* range, StreamBlocks& home);
  bool map_block(Block* block, Bytes wanted);
  void unmap_block(Block* block);
  void release_range(Block* block);
  [[nodiscard]] Bytes page_size(const BlockPool& pool) const {
    return pool.small ? kSmallBuffer : config.large_segment_size;
  }
  [[nodiscard]] Bytes range_size(Bytes page) const;

  // adopt.cpp
  std::vector<BlockHandle> adopt_segment(const SnapshotSegment& segment, PoolId pool);
  Block* adopt_pages(const SnapshotSegment& segment, StreamBlocks& home);

  // layout_digest.cpp
  [[nodiscard]] LayoutDigest layout();

  // snapshot.cpp
  [[nodiscard]] std::vector<SnapshotSegment> snapshot();

  /// Block::counter of a segment that is made now.
  std::uint64_t next_counter() { return config.rules.ties_by_creation ? ++segments_made : 0; }

  // caching_allocator.cpp
  BlockPool& pool_of(PoolId pool, bool small);
  PrivatePool& private_pool(PoolId pool);
  Block* live_block(BlockHandle handle);

  void trace(AllocatorAction action, Address address, Bytes size, StreamId stream) {
    if (observer) observer->on_event({action, address, size, stream.value, 0});
  }
  StatisticGroup& group(const BlockPool& pool) { return pool.small ? statistics.small_pool : statistics.large_pool; }
  void raise(Statistic StatisticGroup::*which, const BlockPool& pool, Bytes amount) {
    (statistics.all.*which).increase(static_cast<std::int64_t>(amount));
    (group(pool).*which).increase(static_cast<std::int64_t>(amount));
  }
  void lower(Statistic StatisticGroup::*which, const BlockPool& pool, Bytes amount) {
    (statistics.all.*which).decrease(static_cast<std::int64_t>(amount));
    (group(pool).*which).decrease(static_cast<std::int64_t>(amount));
  }

  AllocatorConfig config;
  DeviceMemory* memory;
  StreamEvents* events;
  AllocatorObserver* observer;
  AllocatorStatistics statistics;
  Bytes device_total = 0;
  Bytes allowed = 0;         ///< 2.6; meaningful if `limited`
  bool limited = false;      ///< a memory fraction < 1 is set
  Bytes total_reserved = 0;  ///< of all pools
  std::uint64_t segments_made = 0;
  allocator_detail::NodeStore nodes;
  allocator_detail::BlockStore blocks;
  BlockPool small_pool;
  BlockPool large_pool;
  std::vector<std::unique_ptr<PrivatePool>> private_pools;  ///< pool k is at k − 1
  std::vector<std::unique_ptr<ExpandableRange>> ranges;
  allocator_detail::EventQueues queues;
};

}  // namespace foreshard
