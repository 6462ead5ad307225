// Segments that were there before: laid down with given blocks (caching allocator 10.1).
#include <algorithm>

#include "core/allocator/allocator_state.hpp"

namespace foreshard {

/// Cuts [segment's address, + size) out of an unmapped block of the stream's ranges and maps it.
Block* CachingAllocator::Impl::adopt_pages(const SnapshotSegment& segment, StreamBlocks& home) {
  const Address end = segment.address + segment.total_size;
  const auto contains = [&](const Block* block) {
    return block->address <= segment.address && end <= block->address + block->size;
  };
  auto it =
      std::find_if(home.unmapped.begin(), home.unmapped.end(), [&](const auto& key) { return contains(key.block); });
  Block* block =
      it != home.unmapped.end() ? it->block : add_range_block(add_range(segment.address, page_size(*home.pool)), home);
  FORESHARD_CHECK(contains(block), "an adopted expandable segment fits into its virtual range");
  const auto cut_off = [&](Address address, Bytes size, Block* before, Block* after) {
    Block* piece = blocks.make_piece(*block, address, size);
    piece->mapped = false;
    splice(piece, before, after);
    insert_unmapped(piece);
  };
  erase_from_set(block);
  const Address block_end = block->address + block->size;
  if (segment.address > block->address) cut_off(block->address, segment.address - block->address, block->prev, block);
  if (block_end > end) cut_off(end, block_end - end, block, block->next);
  block->address = segment.address;
  block->size = segment.total_size;
  block->mapped = true;
  return block;
}

std::vector<BlockHandle> CachingAllocator::Impl::adopt_segment(const SnapshotSegment& segment, PoolId pool_id) {
  BlockPool& pool = pool_of(pool_id, segment.small_pool);
  StreamBlocks& home = pool.of(StreamId{static_cast<std::uint32_t>(segment.stream)});
  Block* rest =
      segment.is_expandable ? adopt_pages(segment, home) : blocks.make(&home, segment.address, segment.total_size);
  if (!segment.is_expandable) rest->counter = next_counter();  // a snapshot does not say which came first
  total_reserved += segment.total_size;
  if (pool.owner) ++pool.owner->malloc_count;
  if (!segment.is_expandable) raise(&StatisticGroup::segment, pool, 1);
  if (!segment.is_expandable && segment.total_size >= config.max_split_size) statistics.oversize_segments.increase(1);
  raise(&StatisticGroup::reserved_bytes, pool, segment.total_size);
  ++statistics.num_device_alloc;

  const auto add_free = [&](Block* block) {
    insert_free(block);
    if (block->range || !block->split()) return;
    raise(&StatisticGroup::inactive_split, pool, 1);
    raise(&StatisticGroup::inactive_split_bytes, pool, block->size);
  };
  // `rest` is the tail that is not laid out yet; its lower end is cut off piece by piece.
  const auto take_front = [&](Address end, Bytes requested) {
    Block* piece = rest;
    if (end < rest->address + rest->size) {
      piece = blocks.make_piece(*rest, rest->address, end - rest->address);
      splice(piece, rest->prev, rest);
      rest->address = end;
      rest->size -= piece->size;
    } else {
      rest = nullptr;
    }
    piece->requested = requested;
    return piece;
  };
  std::vector<BlockHandle> handles;
  std::vector<Block*> free;
  for (const SnapshotBlock& given : segment.blocks) {
    FORESHARD_CHECK(rest && given.size > 0 && given.address >= rest->address &&
                        given.address + given.size <= rest->address + rest->size,
                    "an adopted segment's blocks lie inside it in address order");
    if (given.address > rest->address) free.push_back(take_front(given.address, 0));
    Block* block = take_front(given.address + given.size, given.requested_size);
    if (given.state == BlockState::inactive) {
      free.push_back(block);
      continue;
    }
    block->allocated = true;
    raise(&StatisticGroup::allocation, pool, 1);
    raise(&StatisticGroup::allocated_bytes, pool, block->size);
    raise(&StatisticGroup::active, pool, 1);
    raise(&StatisticGroup::active_bytes, pool, block->size);
    raise(&StatisticGroup::requested_bytes, pool, block->requested);
    if (block->size >= config.max_split_size) statistics.oversize_allocations.increase(1);
    handles.push_back(BlockHandle{block->index});
  }
  if (rest) free.push_back(rest);
  for (Block* block : free) add_free(block);
  return handles;
}

}  // namespace foreshard
