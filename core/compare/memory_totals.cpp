#include "core/compare/memory_totals.hpp"

namespace foreshard {
namespace {

/// kMinBlockSize (CUDACachingAllocator.h).
constexpr Bytes kMinBlockSize = 512;

}  // namespace

std::int64_t block_bytes(const Run& run, const AllocatorRecord& record) {
  if (record.block.value >= run.blocks.size()) return static_cast<std::int64_t>(round_up(record.size, kMinBlockSize));
  const BlockRecord& block = run.blocks[record.block.value];
  return static_cast<std::int64_t>(block.size > 0 ? block.size : round_up(block.requested, kMinBlockSize));
}

void apply(const Run& run, const AllocatorRecord& record, MemoryTotals& totals) {
  const auto requested = [&] {
    const bool known = record.block.value < run.blocks.size();
    return static_cast<std::int64_t>(known ? run.blocks[record.block.value].requested : record.size);
  };
  switch (record.action) {
    case AllocatorAction::alloc:
      totals.requested += requested();
      totals.allocated += block_bytes(run, record);
      totals.active += block_bytes(run, record);
      break;
    case AllocatorAction::free_requested:
      totals.allocated -= block_bytes(run, record);
      break;
    case AllocatorAction::free_completed:
      totals.requested -= requested();
      totals.active -= block_bytes(run, record);
      break;
    case AllocatorAction::segment_alloc:
    case AllocatorAction::segment_map:
      totals.reserved += static_cast<std::int64_t>(record.size);
      break;
    case AllocatorAction::segment_free:
    case AllocatorAction::segment_unmap:
      totals.reserved -= static_cast<std::int64_t>(record.size);
      break;
    case AllocatorAction::snapshot:
    case AllocatorAction::oom:
    case AllocatorAction::unknown:
      break;
  }
}

MemoryTotals totals_before(const Run& run) {
  if (run.segments.empty()) return {};
  MemoryTotals last;
  for (const SnapshotSegment& segment : run.segments) {
    last.reserved += static_cast<std::int64_t>(segment.total_size);
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.state == BlockState::inactive) continue;
      last.requested += static_cast<std::int64_t>(block.requested_size);
      last.active += static_cast<std::int64_t>(block.size);
      if (block.state == BlockState::live) last.allocated += static_cast<std::int64_t>(block.size);
    }
  }
  MemoryTotals moved;
  for (const AllocatorRecord& record : run.allocator) apply(run, record, moved);
  return {last.requested - moved.requested, last.allocated - moved.allocated, last.active - moved.active,
          last.reserved - moved.reserved};
}

}  // namespace foreshard
