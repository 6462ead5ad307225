// malloc: best fit, splitting, new segments, retry and out of memory (caching allocator 3.1 to 3.4, 3.8).
#include <algorithm>
#include <limits>

#include "core/allocator/allocator_state.hpp"

namespace foreshard {

CachingAllocator::Impl::Request CachingAllocator::Impl::make_request(Bytes size, StreamId stream, PoolId pool) {
  Request request;
  request.size = size;
  request.rounded = round_size(size, config);
  request.segment = segment_size(request.rounded, config);
  BlockPool& chosen = pool_of(pool, request.rounded <= kSmallSize);
  request.home = &chosen.of(stream);
  const bool may_expand = !chosen.owner || (config.rules.expandable_in_private_pools && !chosen.owner->custom());
  request.expandable = config.expandable_segments && may_expand;
  request.routed = chosen.owner && (config.rules.routing_blocks_release || chosen.owner->options.of_capture);
  return request;
}

tl::expected<BlockHandle, OutOfMemory> CachingAllocator::Impl::malloc(Bytes size, StreamId stream, PoolId pool) {
  FORESHARD_CHECK(size > 0, "a request of 0 bytes never reaches the caching allocator");
  if (size >= kMaxRequest) return tl::unexpected<OutOfMemory>(OutOfMemory{.requested = size, .tried = size});
  Request request = make_request(size, stream, pool);
  if (!request.routed) process_events();
  Block* block = get_free_block(request);
  if (!block) block = get_new_block(request);
  if (!block) return tl::unexpected<OutOfMemory>(out_of_memory(request));
  return hand_out(block, request);
}

// 3.3. The search ends at the first candidate: an oversize one is refused, not skipped.
Block* CachingAllocator::Impl::find_free_block(const Request& request) const {
  const auto& free = request.home->free;
  auto it = free.lower_bound({request.rounded, 0, 0, nullptr});
  if (it == free.end()) return nullptr;
  if (it->block->range) {
    if (request.expandable) {
      const auto grown = [](const Block* block) {
        return block->size + (block->next && !block->next->mapped ? block->next->size : 0);
      };
      for (auto next = std::next(it); it->block->range && next != free.end() && grown(next->block) < grown(it->block);)
        it = next++;
    } else {
      while (it != free.end() && it->block->range) ++it;
      if (it == free.end()) return nullptr;
    }
  }
  return fits(it->size, request) ? it->block : nullptr;
}

/// The oversize rules, for a block that is large enough.
bool CachingAllocator::Impl::fits(Bytes block, const Request& request) const {
  if (request.rounded < config.max_split_size) return block < config.max_split_size;
  return block < request.rounded + config.max_non_split_rounding;
}

bool CachingAllocator::Impl::would_serve(BlockHandle pending, Bytes size, StreamId stream, PoolId pool) {
  const Request request = make_request(size, stream, pool);
  const Block& block = blocks.at(pending.value);
  if (!block.in_store || block.event_count == 0) return false;
  Bytes merged = block.size;
  for (const Block* neighbour : {block.prev, block.next})
    if (neighbour && neighbour->available() && neighbour->mapped) merged += neighbour->size;
  return block.home == request.home && merged >= request.rounded && fits(merged, request);
}

Block* CachingAllocator::Impl::get_free_block(const Request& request) {
  if (collects()) ++request.home->pool->call_count;
  Block* block = find_free_block(request);
  if (block) erase_from_set(block);
  return block;
}

// 3.1 step 6. Only alloc_block is tried again after a release, not get_free_block (pytorch#189504).
Block* CachingAllocator::Impl::get_new_block(Request& request) {
  for (Block* block : collectable_blocks()) release_block(block);
  if (Block* block = alloc_block(request, false)) return block;
  if (config.rules.preemptive_oom && config.throw_on_cudamalloc_oom && over_limit(request.segment)) return nullptr;
  if (Block* block = use_on_oom_block(request)) return block;
  const Release available = available_cached_blocks(request, {});
  for (Block* block : available.blocks) release_block(block);
  if (available.enough)
    if (Block* block = alloc_block(request, false)) return block;
  if (request.routed) return nullptr;
  release_cached_blocks(nullptr);
  return alloc_block(request, true);
}

// 6.4. The request goes on as one of the pool it found a block in.
Block* CachingAllocator::Impl::use_on_oom_block(Request& request) {
  if (!config.rules.use_on_oom || request.home->pool->owner) return nullptr;
  for (const auto& owner : private_pools) {
    if (!owner->options.use_on_oom) continue;
    Request fallback = request;
    fallback.home = &(request.home->pool->small ? owner->small : owner->large).of(request.home->stream);
    fallback.expandable = false;
    if (Block* block = get_free_block(fallback)) {
      request = fallback;
      return block;
    }
  }
  return nullptr;
}

Block* CachingAllocator::Impl::alloc_block(const Request& request, bool retry) {
  if (retry) ++statistics.num_alloc_retries;
  if (over_limit(request.segment)) return nullptr;
  if (!request.expandable) return alloc_segment(request);
  Block* block = try_allocate_expandable_block(request);
  if (block && request.home->pool->owner) ++request.home->pool->owner->malloc_count;
  return block;
}

Block* CachingAllocator::Impl::alloc_segment(const Request& request) {
  BlockPool& pool = *request.home->pool;
  const MemoryKind kind = pool.owner ? pool.owner->options.kind : MemoryKind::device;
  const std::optional<Address> address = memory->allocate(kind, request.segment);
  if (!address) return nullptr;
  total_reserved += request.segment;
  if (pool.owner) ++pool.owner->malloc_count;
  raise(&StatisticGroup::segment, pool, 1);
  raise(&StatisticGroup::reserved_bytes, pool, request.segment);
  if (request.segment >= config.max_split_size) statistics.oversize_segments.increase(1);
  ++statistics.num_device_alloc;
  trace(AllocatorAction::segment_alloc, *address, request.segment, request.home->stream);
  Block* block = blocks.make(request.home, *address, request.segment);
  block->counter = next_counter();
  return block;
}

// 2.4. Only what exceeds 1 MiB is worth splitting off in the large pool (kSmallSize, strict).
bool CachingAllocator::Impl::should_split(const Block& block, const Request& request) const {
  const BlockPool& pool = *block.home->pool;
  if (pool.owner && pool.owner->options.no_split) return false;
  const Bytes rest = block.size - request.rounded;
  const bool expandable = config.rules.split_by_request ? request.expandable : config.expandable_segments;
  if (pool.small || expandable) return rest >= kMinBlockSize;
  return request.rounded < config.max_split_size && rest > kSmallSize;
}

// 3.2. The lower part is a new object; the remainder keeps the old one, with its stale requested size.
BlockHandle CachingAllocator::Impl::hand_out(Block* block, const Request& request) {
  const BlockPool& pool = *block->home->pool;
  const bool was_split = block->split();
  if (should_split(*block, request)) {
    Block* rest = block;
    block = blocks.make_piece(*rest, rest->address, request.rounded);
    splice(block, rest->prev, rest);
    rest->address += request.rounded;
    rest->size -= request.rounded;
    insert_free(rest);
    if (!block->range && was_split) {
      lower(&StatisticGroup::inactive_split_bytes, pool, block->size);
    } else if (!block->range) {
      raise(&StatisticGroup::inactive_split_bytes, pool, rest->size);
      raise(&StatisticGroup::inactive_split, pool, 1);
    }
  } else if (was_split && !block->range) {
    lower(&StatisticGroup::inactive_split_bytes, pool, block->size);
    lower(&StatisticGroup::inactive_split, pool, 1);
  }
  block->allocated = true;
  block->requested = request.size;
  trace(AllocatorAction::alloc, block->address, request.size, block->home->stream);
  raise(&StatisticGroup::allocation, pool, 1);
  raise(&StatisticGroup::allocated_bytes, pool, block->size);
  raise(&StatisticGroup::active, pool, 1);
  raise(&StatisticGroup::active_bytes, pool, block->size);
  raise(&StatisticGroup::requested_bytes, pool, request.size);
  if (block->size >= config.max_split_size) statistics.oversize_allocations.increase(1);
  return BlockHandle{block->index};
}

OutOfMemory CachingAllocator::Impl::out_of_memory(const Request& request) {
  OutOfMemory failure;
  failure.requested = request.size;
  failure.tried = request.segment;
  failure.allowed = limited && allowed < kNoLimit ? allowed : device_total;
  failure.device_free = memory->info().free;
  failure.allocated = static_cast<Bytes>(statistics.all.allocated_bytes.current);
  failure.reserved = static_cast<Bytes>(statistics.all.reserved_bytes.current);
  for (const auto& owner : private_pools)
    for (const BlockPool* pool : {&owner->small, &owner->large})
      for (const auto& stream : pool->streams)
        for (const auto& key : stream->free) failure.private_free += key.size;
  ++statistics.num_ooms;
  trace(AllocatorAction::oom, failure.device_free, request.rounded, request.home->stream);
  return failure;
}

}  // namespace foreshard
