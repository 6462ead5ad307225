// Giving cached memory back: garbage collection, oversize release, empty_cache (caching allocator 3.5 to 3.7).
#include <algorithm>
#include <vector>

#include "core/allocator/allocator_state.hpp"

namespace foreshard {

bool CachingAllocator::Impl::collection_due() const {
  if (!limited || config.garbage_collection_threshold <= 0) return false;
  const auto limit = static_cast<Bytes>(config.garbage_collection_threshold * static_cast<double>(allowed));
  return total_reserved > limit;
}

// 3.5. A pass takes every old enough block; it does not stop when the target is reached.
std::vector<Block*> CachingAllocator::Impl::collectable_blocks() const {
  std::vector<Block*> chosen;
  if (!collection_due()) return chosen;
  const auto limit = static_cast<Bytes>(config.garbage_collection_threshold * static_cast<double>(allowed));
  const Bytes target = total_reserved - limit;
  const auto age = [this](const Block* block) { return large_pool.call_count - block->gc_base; };
  std::vector<Block*> left;
  std::uint64_t total_age = 0;
  for (const auto& stream : large_pool.streams) {
    for (const auto& key : stream->free) {
      if (key.block->split()) continue;
      total_age += age(key.block);
      left.push_back(key.block);
    }
  }
  Bytes reclaimed = 0;
  for (bool found = true; reclaimed < target && found && !left.empty();) {
    const double threshold = static_cast<double>(total_age) / static_cast<double>(left.size());
    found = false;
    std::vector<Block*> younger;
    for (Block* block : left) {
      if (block->range || static_cast<double>(age(block)) < threshold) {
        younger.push_back(block);
        continue;
      }
      found = true;
      reclaimed += block->size;
      total_age -= age(block);
      chosen.push_back(block);
    }
    left = std::move(younger);
  }
  return chosen;
}

// 3.6. May name blocks and still not be enough.
CachingAllocator::Impl::Release CachingAllocator::Impl::available_cached_blocks(const Request& request) const {
  Release release;
  if (config.max_split_size == std::numeric_limits<Bytes>::max()) return release;
  const auto& free = request.home->free;
  const Bytes wanted = std::max(request.rounded, config.max_split_size);
  // An oversize block is never split by malloc (2.4); one that was adopted in pieces stays.
  const auto stays = [](const Block* block) { return block->range || block->split(); };
  auto it = free.lower_bound({wanted, 0, nullptr});
  if (it != free.end() && !stays(it->block)) return {{it->block}, true};
  Bytes released = 0;
  while (it != free.begin() && released < wanted && std::prev(it)->size >= config.max_split_size) {
    --it;
    if (stays(it->block)) continue;
    released += it->size;
    release.blocks.push_back(it->block);
  }
  release.enough = released >= wanted;
  return release;
}

PlannedReleases CachingAllocator::Impl::planned_releases(Bytes size, StreamId stream, PoolId pool) {
  const Request request = make_request(size, stream, pool);
  PlannedReleases plan;
  Bytes reserved = total_reserved;
  const auto add = [&](const std::vector<Block*>& chosen) {
    for (const Block* block : chosen) {
      plan.segments.push_back(block->address);
      reserved -= block->size;
    }
  };
  const auto fits_limit = [&] { return !limited || reserved + request.segment <= allowed; };
  const std::vector<Block*> collected = collectable_blocks();
  add(collected);
  plan.enough = fits_limit();
  if (plan.enough) return plan;
  Release available = available_cached_blocks(request);
  std::erase_if(available.blocks, [&](const Block* block) {
    return std::find(collected.begin(), collected.end(), block) != collected.end();
  });
  add(available.blocks);
  plan.enough = available.enough && fits_limit();
  return plan;
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
