#include "viz/scene/memory_state.hpp"

#include <algorithm>

namespace foreshard::viz {
namespace {

using Action = AllocatorAction;

/// Blocks whose rounded size is not known are rounded as the allocator does (kMinBlockSize, CUDACachingAllocator.h).
constexpr Bytes kMinBlockSize = 512;

}  // namespace

BlockBytes block_bytes(const Run& run, const AllocatorRecord& record) {
  if (record.block.value >= run.blocks.size())
    return {static_cast<std::int64_t>(round_up(record.size, kMinBlockSize)), static_cast<std::int64_t>(record.size)};
  const BlockRecord& block = run.blocks[record.block.value];
  const Bytes size = block.size > 0 ? block.size : round_up(block.requested, kMinBlockSize);
  const bool known = static_cast<std::size_t>(block.category) < kCategories;
  return {static_cast<std::int64_t>(size), static_cast<std::int64_t>(block.requested),
          known ? block.category : MemoryCategory::other};
}

void apply(const Run& run, const AllocatorRecord& record, MemoryState& state, const BlockGroups* groups) {
  const auto part_of = [&](const BlockBytes& block) {
    if (groups == nullptr) return static_cast<std::size_t>(block.category);
    return record.block.value < groups->of_block.size() ? std::size_t{groups->of_block[record.block.value]} : 0;
  };
  const auto bytes = static_cast<std::int64_t>(record.size);
  switch (record.action) {
    case Action::alloc: {
      const BlockBytes block = block_bytes(run, record);
      state.category[part_of(block)] += block.size;
      state.allocated += block.size;
      state.active += block.size;
      state.requested += block.requested;
      break;
    }
    case Action::free_requested: {
      const BlockBytes block = block_bytes(run, record);
      state.category[part_of(block)] -= block.size;
      state.allocated -= block.size;
      break;
    }
    // free_block() lowers active and requested bytes, free() only allocated (CUDACachingAllocator.cpp, 2.11).
    case Action::free_completed: {
      const BlockBytes block = block_bytes(run, record);
      state.active -= block.size;
      state.requested -= block.requested;
      break;
    }
    case Action::segment_alloc:
    case Action::segment_map:
      state.reserved += bytes;
      break;
    case Action::segment_free:
    case Action::segment_unmap:
      state.reserved -= bytes;
      break;
    case Action::snapshot:
    case Action::oom:
    case Action::unknown:
      break;
  }
}

MemoryState before_first(const Run& run, const BlockGroups* groups) {
  MemoryState net;
  MemoryState lowest;
  for (const AllocatorRecord& record : run.allocator) {
    apply(run, record, net);
    lowest.allocated = std::min(lowest.allocated, net.allocated);
    lowest.active = std::min(lowest.active, net.active);
    lowest.reserved = std::min(lowest.reserved, net.reserved);
    lowest.requested = std::min(lowest.requested, net.requested);
  }
  MemoryState last;
  for (const SnapshotSegment& segment : run.segments) {
    last.allocated += static_cast<std::int64_t>(segment.allocated_size);
    last.active += static_cast<std::int64_t>(segment.active_size);
    last.reserved += static_cast<std::int64_t>(segment.total_size);
    last.requested += static_cast<std::int64_t>(segment.requested_size);
  }
  MemoryState out;
  out.allocated = std::max(last.allocated - net.allocated, -lowest.allocated);
  out.active = std::max(last.active - net.active, -lowest.active);
  out.reserved = std::max(last.reserved - net.reserved, -lowest.reserved);
  out.requested = std::max(last.requested - net.requested, -lowest.requested);
  out.category[groups == nullptr ? static_cast<std::size_t>(MemoryCategory::other) : 0] = out.allocated;
  return out;
}

}  // namespace foreshard::viz
