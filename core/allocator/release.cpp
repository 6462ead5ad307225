// Giving cached memory back: garbage collection, oversize release, empty_cache (docs/allocator.md 3.5 to 3.7).
#include <vector>

#include "core/allocator/allocator_state.hpp"

namespace foreshard {

bool CachingAllocator::Impl::collection_due() const {
  if (!limited || config.garbage_collection_threshold <= 0) return false;
  const auto limit = static_cast<Bytes>(config.garbage_collection_threshold * static_cast<double>(allowed));
  return total_reserved > limit;
}

bool CachingAllocator::Impl::has_collectable() const {
  for (const auto& stream : large_pool.streams)
    for (const auto& key : stream->free)
      if (!key.block->split() && !key.block->range) return true;
  return false;
}

// 3.5. A pass frees every old enough block; it does not stop when the target is reached.
void CachingAllocator::Impl::garbage_collect() {
  const auto limit = static_cast<Bytes>(config.garbage_collection_threshold * static_cast<double>(allowed));
  const Bytes target = total_reserved - limit;
  const auto age = [this](const Block* block) { return large_pool.call_count - block->gc_base; };
  std::uint64_t total_age = 0;
  std::uint64_t count = 0;
  for (const auto& stream : large_pool.streams) {
    for (const auto& key : stream->free) {
      if (key.block->split()) continue;
      total_age += age(key.block);
      ++count;
    }
  }
  Bytes reclaimed = 0;
  for (bool freed = true; reclaimed < target && freed && count > 0;) {
    const double threshold = static_cast<double>(total_age) / static_cast<double>(count);
    freed = false;
    for (const auto& stream : large_pool.streams) {
      for (auto it = stream->free.begin(); it != stream->free.end();) {
        Block* block = (it++)->block;
        if (block->split() || block->range || static_cast<double>(age(block)) < threshold) continue;
        freed = true;
        reclaimed += block->size;
        total_age -= age(block);
        --count;
        release_block(block);
      }
    }
  }
}

// 3.6. May release blocks and still return false: then their sum was too small.
bool CachingAllocator::Impl::release_available_cached_blocks(const Request& request) {
  if (config.max_split_size == std::numeric_limits<Bytes>::max()) return false;
  auto& free = request.home->free;
  const Bytes wanted = std::max(request.rounded, config.max_split_size);
  auto it = free.lower_bound({wanted, 0, nullptr});
  if (it != free.end() && !it->block->range) {
    release_block(it->block);
    return true;
  }
  Bytes released = 0;
  while (it != free.begin() && released < wanted && std::prev(it)->size >= config.max_split_size) {
    --it;
    if (it->block->range) continue;
    Block* block = it->block;
    released += block->size;
    ++it;
    release_block(block);
  }
  return released >= wanted;
}

void CachingAllocator::Impl::empty_cache(PoolId pool) {
  release_cached_blocks(pool == kDefaultPool ? nullptr : &private_pool(pool));
}

void CachingAllocator::Impl::release_cached_blocks(PrivatePool* only) {
  const auto done = [this](Block* block) { complete_event(block); };
  if (!only) {
    ++statistics.num_sync_all_streams;
    queues.drain(
        *events, [](const Block*) { return true; }, done);
    release_blocks(large_pool);
    release_blocks(small_pool);
  }
  for (const auto& owner : private_pools) {
    if (owner->use_count > 0 || (only && owner.get() != only)) continue;
    if (only)
      queues.drain(
          *events, [only](const Block* block) { return block->home->pool->owner == only; }, done);
    release_blocks(owner->small);
    release_blocks(owner->large);
  }
}

void CachingAllocator::Impl::release_blocks(BlockPool& pool) {
  std::vector<Block*> to_unmap;
  for (const auto& stream : pool.streams) {
    for (auto it = stream->free.begin(); it != stream->free.end();) {
      Block* block = (it++)->block;
      if (block->range)
        to_unmap.push_back(block);
      else if (!block->split())
        release_block(block);
    }
  }
  for (Block* block : to_unmap) {
    unmap_block(block);
    if (!block->mapped && !block->split()) release_range(block);
  }
}

void CachingAllocator::Impl::release_block(Block* block) {
  FORESHARD_CHECK(!block->split() && !block->range, "only a whole cudaMalloc segment can be given back");
  const BlockPool& pool = *block->home->pool;
  ++statistics.num_device_free;
  trace(AllocatorAction::segment_free, block->address, block->size, block->home->stream);
  memory->free(block->address);
  total_reserved -= block->size;
  if (pool.owner) --pool.owner->malloc_count;
  lower(&StatisticGroup::segment, pool, 1);
  lower(&StatisticGroup::reserved_bytes, pool, block->size);
  if (block->size >= config.max_split_size) statistics.oversize_segments.decrease(1);
  erase_from_set(block);
  blocks.drop(block);
}

}  // namespace foreshard
