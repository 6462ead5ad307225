// Giving cached memory back: garbage collection, oversize release, empty_cache (caching allocator 3.5 to 3.7).
#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "core/allocator/allocator_state.hpp"

namespace foreshard {

// garbage_collect_cached_blocks: static_cast<size_t>(threshold * allowed_memory_maximum).
Bytes CachingAllocator::Impl::collection_goal(Bytes limit) const {
  return static_cast<Bytes>(config.garbage_collection_threshold * static_cast<double>(limit));
}

// 3.5. A pass takes every old enough block; it does not stop when the goal is reached.
std::vector<Block*> CachingAllocator::Impl::collectable_blocks() const {
  std::vector<Block*> chosen;
  if (!collects()) return chosen;
  const Bytes goal = collection_goal(allowed);
  if (total_reserved <= goal) return chosen;
  CollectionPasses passes(large_pool);
  for (Bytes reserved = total_reserved; reserved > goal;) {
    const std::vector<Block*> pass = passes.next();
    if (pass.empty()) break;
    for (Block* block : pass) reserved -= block->size;
    chosen.insert(chosen.end(), pass.begin(), pass.end());
  }
  return chosen;
}

// 3.6. May name blocks and still not be enough.
CachingAllocator::Impl::Release CachingAllocator::Impl::available_cached_blocks(const Request& request,
                                                                                const std::vector<Block*>& gone) const {
  Release release;
  if (config.max_split_size == std::numeric_limits<Bytes>::max()) return release;
  const auto& free = request.home->free;
  const Bytes wanted = std::max(request.rounded, config.max_split_size);
  // An oversize block is never split by malloc (2.4); one that was adopted in pieces stays.
  const auto stays = [](const Block* block) { return block->range || block->split(); };
  const auto is_gone = [&](Block* block) { return std::binary_search(gone.begin(), gone.end(), block, std::less<>()); };
  auto it = free.lower_bound({wanted, 0, 0, nullptr});
  while (it != free.end() && is_gone(it->block)) ++it;
  if (it != free.end() && !stays(it->block)) return {{it->block}, true};
  Bytes released = 0;
  while (it != free.begin() && released < wanted && std::prev(it)->size >= config.max_split_size) {
    --it;
    if (stays(it->block) || is_gone(it->block)) continue;
    released += it->size;
    release.blocks.push_back(it->block);
  }
  release.enough = released >= wanted;
  return release;
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
