// The snapshot: segments and blocks by address, as torch.cuda.memory._snapshot() lists them (caching allocator 9.2).
#include <algorithm>

#include "core/allocator/allocator_state.hpp"

namespace foreshard {
namespace {

BlockState state_of(const Block& block) {
  if (block.allocated) return BlockState::live;
  return block.event_count > 0 ? BlockState::pending_free : BlockState::inactive;
}

/// The segment that starts at `head`: to the end of the list, or of the mapped run.
SnapshotSegment describe(const Block& head) {
  const BlockPool& pool = *head.home->pool;
  SnapshotSegment segment;
  segment.address = head.address;
  segment.stream = head.home->stream.value;
  segment.small_pool = pool.small;
  const std::uint64_t pool_id = pool.owner ? pool.owner->id.value : 0;
  segment.pool_id = {0, pool_id};
  if (pool.owner && pool.owner->options.of_capture) segment.pool_id = {pool_id, 0};
  segment.is_expandable = head.range != nullptr;
  for (const Block* block = &head; block && block->mapped; block = block->next) {
    const BlockState state = state_of(*block);
    segment.blocks.push_back({block->address, block->size, block->requested, state});
    segment.total_size += block->size;
    if (state == BlockState::live) segment.allocated_size += block->size;
    if (state == BlockState::inactive) continue;
    segment.active_size += block->size;
    segment.requested_size += block->requested;
  }
  return segment;
}

}  // namespace

std::vector<SnapshotSegment> CachingAllocator::Impl::snapshot() {
  std::vector<SnapshotSegment> segments;
  for (std::uint32_t index = 0; index < blocks.capacity(); ++index) {
    const Block& block = blocks.at(index);
    const bool head = block.in_store && block.mapped && (!block.prev || !block.prev->mapped);
    if (head) segments.push_back(describe(block));
  }
  std::sort(segments.begin(), segments.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  return segments;
}

}  // namespace foreshard
