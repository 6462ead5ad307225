// free, record_stream and events, merging (caching allocator 5).
#include <algorithm>

#include "core/allocator/allocator_state.hpp"

namespace foreshard {

void CachingAllocator::Impl::free(Block* block) {
  const BlockPool& pool = *block->home->pool;
  block->allocated = false;
  lower(&StatisticGroup::allocation, pool, 1);
  lower(&StatisticGroup::allocated_bytes, pool, block->size);
  trace(AllocatorAction::free_requested, block->address, block->requested, block->home->stream);
  if (block->size >= config.max_split_size) statistics.oversize_allocations.decrease(1);
  if (block->uses.empty()) return free_block(block);
  // One event on each stream now: behind all that is queued there until the free (insert_events).
  for (const StreamId stream : block->uses) {
    ++block->event_count;
    queues.push(stream, events->record_event(stream), block);
  }
  block->uses.clear();
}

void CachingAllocator::Impl::record_stream(Block* block, StreamId stream) {
  if (stream == block->home->stream) return;
  const auto place = std::lower_bound(block->uses.begin(), block->uses.end(), stream);
  if (place == block->uses.end() || *place != stream) block->uses.insert(place, stream);
}

void CachingAllocator::Impl::process_events() {
  if (queues.empty()) return;
  queues.poll(*events, [this](Block* block) { complete_event(block); });
}

void CachingAllocator::Impl::complete_event(Block* block) {
  if (--block->event_count == 0) free_block(block);
}

// 5.3. The freed object survives a merge and keeps its own requested size.
void CachingAllocator::Impl::free_block(Block* block) {
  const BlockPool& pool = *block->home->pool;
  const Bytes size = block->size;
  trace(AllocatorAction::free_completed, block->address, block->requested, block->home->stream);
  std::int64_t net_count = 0;
  std::int64_t net_bytes = 0;
  for (Block* neighbour : {block->prev, block->next}) {
    const Bytes merged = try_merge(block, neighbour);
    if (merged == 0) continue;
    --net_count;
    net_bytes -= static_cast<std::int64_t>(merged);
  }
  insert_free(block);
  if (block->split()) {
    ++net_count;
    net_bytes += static_cast<std::int64_t>(block->size);
  }
  if (!block->range) {
    const auto apply = [&](Statistic StatisticGroup::*which, std::int64_t change) {
      if (change > 0) raise(which, pool, static_cast<Bytes>(change));
      if (change < 0) lower(which, pool, static_cast<Bytes>(-change));
    };
    apply(&StatisticGroup::inactive_split, net_count);
    apply(&StatisticGroup::inactive_split_bytes, net_bytes);
  }
  lower(&StatisticGroup::active, pool, 1);
  lower(&StatisticGroup::active_bytes, pool, size);
  lower(&StatisticGroup::requested_bytes, pool, block->requested);
}

/// Takes `from` into its neighbour `into`, if both are available and of the same mapping. `into` must be
/// in no set. Returns the bytes taken over.
Bytes CachingAllocator::Impl::try_merge(Block* into, Block* from) {
  if (!from || !from->available() || from->mapped != into->mapped) return 0;
  erase_from_set(from);
  if (into->prev == from) {
    into->address = from->address;
    into->prev = from->prev;
    if (into->prev) into->prev->next = into;
  } else {
    into->next = from->next;
    if (into->next) into->next->prev = into;
  }
  into->size += from->size;
  const Bytes merged = from->size;
  blocks.drop(from);
  return merged;
}

}  // namespace foreshard
