// Expandable segments: virtual ranges whose pages are mapped and unmapped (caching allocator 4).
#include <algorithm>
#include <optional>

#include "core/allocator/allocator_state.hpp"

namespace foreshard {

// ExpandableSegment's constructor (2.11): 9/8 of the device's memory, in whole pages.
Bytes CachingAllocator::Impl::range_size(Bytes page) const {
  return round_up(device_total + device_total / 8, page);
}

ExpandableRange* CachingAllocator::Impl::add_range(Address base, Bytes page) {
  ranges.push_back(std::make_unique<ExpandableRange>(ExpandableRange{base, range_size(page), page}));
  return ranges.back().get();
}

Block* CachingAllocator::Impl::add_range_block(ExpandableRange* range, StreamBlocks& home) {
  Block* block = blocks.make(&home, range->base, range->size);
  block->range = range;
  block->counter = next_counter();
  block->mapped = false;
  insert_unmapped(block);
  return block;
}

// 4.2: the first run of free or unmapped blocks, by address, that is large enough.
Block* CachingAllocator::Impl::find_expandable_room(const Request& request) const {
  const Bytes wanted = request.rounded;
  const auto has_room = [wanted](const Block* block) {
    Bytes room = 0;
    for (; room < wanted && block && block->available(); block = block->next) room += block->size;
    return room >= wanted;
  };
  for (const auto& key : request.home->unmapped) {
    Block* block = key.block;
    if (block->prev && block->prev->available()) block = block->prev;
    if (has_room(block)) return block;
  }
  return nullptr;
}

/// Such a run, else a new range.
Block* CachingAllocator::Impl::find_expandable_block(const Request& request) {
  if (Block* block = find_expandable_room(request)) return block;
  const Bytes page = page_size(*request.home->pool);
  if (range_size(page) < request.rounded) return nullptr;  // undefined in 2.11, out of memory in newer versions
  const std::optional<Address> base = memory->reserve(range_size(page));
  return base ? add_range_block(add_range(*base, page), *request.home) : nullptr;
}

// A failure in the middle keeps what was mapped before, as free blocks.
Block* CachingAllocator::Impl::try_allocate_expandable_block(const Request& request) {
  Block* block = find_expandable_block(request);
  if (!block) return nullptr;
  if (!block->mapped && !map_block(block, std::min(block->size, request.rounded))) return nullptr;
  while (block->size < request.rounded) {
    Block* next = block->next;
    FORESHARD_CHECK(next && !next->mapped, "an expandable segment has an unmapped block behind a free one");
    if (!map_block(next, std::min(request.rounded - block->size, next->size))) return nullptr;
    block = next;
  }
  erase_from_set(block);
  return block;
}

// 4.3. `block` starts on the page grid and ends on it; `wanted` is rounded up to whole pages.
bool CachingAllocator::Impl::map_block(Block* block, Bytes wanted) {
  const BlockPool& pool = *block->home->pool;
  const Address first = block->address;
  const Bytes mapped = round_up(wanted, block->range->page);
  if (!memory->map(first, mapped)) return false;
  erase_from_set(block);
  block->mapped = true;
  if (mapped < block->size) {
    Block* rest = blocks.make_piece(*block, first + mapped, block->size - mapped);
    rest->mapped = false;
    splice(rest, block, block->next);
    insert_unmapped(rest);
    block->size = mapped;
  }
  try_merge(block, block->prev);
  try_merge(block, block->next);
  insert_free(block);
  total_reserved += mapped;
  raise(&StatisticGroup::reserved_bytes, pool, mapped);
  ++statistics.num_device_alloc;
  trace(AllocatorAction::segment_map, first, mapped, block->home->stream);
  return true;
}

// 4.4. Only pages that lie wholly inside the block, on the range's own grid.
void CachingAllocator::Impl::unmap_block(Block* block) {
  const ExpandableRange& range = *block->range;
  const Address end = block->address + block->size;
  const Address first = range.base + round_up(block->address - range.base, range.page);
  const Address last = range.base + (end - range.base) / range.page * range.page;
  if (last <= first) return;
  const auto cut_off = [&](Address address, Bytes size, Block* before, Block* after) {
    Block* piece = blocks.make_piece(*block, address, size);
    splice(piece, before, after);
    insert_free(piece);
  };
  erase_from_set(block);
  memory->unmap(first, last - first);
  if (first > block->address) cut_off(block->address, first - block->address, block->prev, block);
  if (end > last) cut_off(last, end - last, block, block->next);
  block->address = first;
  block->size = last - first;
  block->mapped = false;
  try_merge(block, block->prev);
  try_merge(block, block->next);
  insert_unmapped(block);
  BlockPool& pool = *block->home->pool;
  total_reserved -= last - first;
  lower(&StatisticGroup::reserved_bytes, pool, last - first);
  if (pool.owner) --pool.owner->malloc_count;
  ++statistics.num_device_free;
  trace(AllocatorAction::segment_unmap, first, last - first, block->home->stream);
}

void CachingAllocator::Impl::release_range(Block* block) {
  ExpandableRange* range = block->range;
  erase_from_set(block);
  blocks.drop(block);
  memory->release(range->base);
  std::erase_if(ranges, [range](const auto& owned) { return owned.get() == range; });
}

}  // namespace foreshard
