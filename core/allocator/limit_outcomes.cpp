// What a malloc that finds no block would do under each memory limit (caching allocator 3.1 step 6, 3.5, 3.6).
#include <algorithm>
#include <functional>

#include "core/allocator/allocator_state.hpp"

namespace foreshard {

/// The least limit whose collection goal is at least `goal`.
Bytes CachingAllocator::Impl::least_limit(Bytes goal) const {
  Bytes low = 0, high = kNoLimit;
  while (low < high) {
    const Bytes middle = low + (high - low) / 2;
    if (collection_goal(middle) >= goal)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// An expandable block that get_free_block passes over as oversize may need no more pages.
bool CachingAllocator::Impl::asks_driver(const Request& request) const {
  const Block* room = request.expandable ? find_expandable_room(request) : nullptr;
  return !room || !room->mapped || room->size < request.rounded;
}

/// Those of the limits [least, below), under which garbage collection gives back `collected`.
void CachingAllocator::Impl::add_outcomes(const Request& request, const std::vector<Block*>& collected, Bytes least,
                                          Bytes below, LimitOutcomes& into) const {
  using Next = LimitOutcome::Next;
  std::vector<Address> segments;
  Bytes needed = total_reserved + request.segment;
  for (const Block* block : collected) {
    segments.push_back(block->address);
    needed -= block->size;
  }
  into.outcomes.push_back({std::max(least, needed), below, below, segments, Next::memory});
  Bytes refused = std::min(below, needed);
  if (config.rules.preemptive_oom && config.throw_on_cudamalloc_oom) {
    into.outcomes.push_back({least, refused, refused, segments, Next::failure});
    least = refused = std::max(least, needed);  // what follows takes a refusal of the driver
  }
  std::vector<Block*> gone = collected;
  std::sort(gone.begin(), gone.end(), std::less<>());
  const Release available = available_cached_blocks(request, gone);
  for (const Block* block : available.blocks) {
    segments.push_back(block->address);
    needed -= block->size;
  }
  const Bytes driver_below = asks_driver(request) ? below : least;
  if (available.enough) {
    into.outcomes.push_back({std::max(least, needed), refused, driver_below, segments, Next::memory});
    refused = std::min(refused, needed);
  }
  into.outcomes.push_back({least, refused, driver_below, segments, request.routed ? Next::failure : Next::everything});
}

LimitOutcomes CachingAllocator::Impl::limit_outcomes(const Request& request, std::size_t at_most) const {
  LimitOutcomes result{total_reserved, request.segment, {}};
  const bool collects = config.garbage_collection_threshold > 0;
  CollectionPasses passes(large_pool);
  std::vector<Block*> collected;
  Bytes reserved = total_reserved;
  for (Bytes below = kNoLimit + 1; collected.size() <= at_most;) {
    const std::vector<Block*> pass = collects ? passes.next() : std::vector<Block*>();
    // Garbage collection stops here if its goal is reached, or if nothing may go.
    const Bytes least = pass.empty() ? 0 : least_limit(reserved);
    if (least < below) add_outcomes(request, collected, least, below, result);
    if (pass.empty()) break;
    below = std::min(below, least);
    for (const Block* block : pass) reserved -= block->size;
    collected.insert(collected.end(), pass.begin(), pass.end());
  }
  return result;
}

std::vector<Address> CachingAllocator::Impl::cached_segments() const {
  std::vector<Address> addresses;
  for (const BlockPool* pool : {&large_pool, &small_pool})
    for (const auto& stream : pool->streams)
      for (const auto& key : stream->free)
        if (!key.block->range && !key.block->split()) addresses.push_back(key.address);
  return addresses;
}

}  // namespace foreshard
