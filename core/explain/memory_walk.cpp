#include "core/explain/memory_walk.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/allocator/replay.hpp"
#include "core/allocator/sizes.hpp"

namespace foreshard::explain_detail {
namespace {

/// The run as a snapshot, as far as it tells what was there before the first event.
Snapshot snapshot_of(const Run& run) {
  std::map<StreamId, std::uint64_t> handles;
  if (run.info.kind == RunKind::imported)
    for (const StreamRecord& stream : run.streams) handles[stream.id] = stream.id == kComputeStream ? 0 : stream.handle;
  Snapshot snapshot;
  snapshot.segments = run.segments;
  snapshot.events.reserve(run.allocator.size());
  for (const AllocatorRecord& event : run.allocator) {
    const auto handle = handles.find(event.stream);
    const std::uint64_t stream = handle == handles.end() ? event.stream.value : handle->second;
    snapshot.events.push_back({event.action, event.address, event.size, stream, event.time.count / 1000});
  }
  return snapshot;
}

/// Streams by raw handle; foreshard's own runs have ids in its place. Where several have one (a profiler's stream
/// number), the last: import adds those of the allocator after the profiler's.
StreamId stream_of(const Run& run, std::uint64_t handle) {
  if (run.info.kind != RunKind::imported) return StreamId{static_cast<std::uint32_t>(handle)};
  if (handle == 0) return kComputeStream;
  for (auto it = run.streams.rbegin(); it != run.streams.rend(); ++it)
    if (it->handle == handle) return it->id;
  return kComputeStream;
}

/// Pools of memory that is there at the end, numbered as the import numbers them.
PoolId pool_at(const Run& run, Address address) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> keys;
  for (const SnapshotSegment& segment : run.segments) keys.insert(segment.pool_id);
  keys.erase({0, 0});
  for (const SnapshotSegment& segment : run.segments) {
    if (address < segment.address || address - segment.address >= segment.total_size) continue;
    const auto place = keys.find(segment.pool_id);
    if (place == keys.end()) return kDefaultPool;
    return PoolId{static_cast<std::uint32_t>(std::distance(keys.begin(), place)) + 1};
  }
  return kDefaultPool;
}

/// An alloc follows the segment that was got for it at once (malloc()); more is given for entries of other threads.
constexpr std::size_t kLookAhead = 16;

bool completes(const AllocatorRecord& request, const AllocatorRecord& next) {
  return next.action == AllocatorAction::free_completed && next.address == request.address;
}

}  // namespace

AllocatorConfig allocator_config(const Run& run) {
  const Result<AllocatorConfig> config = parse_alloc_conf(run.settings.alloc_conf, run.settings.pytorch);
  return config ? *config : AllocatorConfig{};
}

MemoryWalk::MemoryWalk(const Run& run) : run_(run), config_(allocator_config(run)) {}

Result<MemoryWalk> MemoryWalk::begin(const Run& run) {
  MemoryWalk walk(run);
  FORESHARD_TRY(walk.lay_initial_segments());
  return walk;
}

Result<void> MemoryWalk::lay_initial_segments() {
  auto segments = initial_segments(snapshot_of(run_), config_);
  FORESHARD_TRY(segments);
  for (const SnapshotSegment& segment : *segments) {
    Segment laid{0, stream_of(run_, segment.stream), pool_at(run_, segment.address),
                 segment.is_expandable ? page_size(segment.small_pool) : 0};
    if (!state_.add(segment.address, segment.total_size, laid, false)) ++odd_;
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.state == BlockState::inactive) continue;
      const bool pending = block.state == BlockState::pending_free;
      if (!state_.hold(block.address, {block.size, block.requested_size, BlockId{}, pending, kNoEvent})) ++odd_;
    }
  }
  return {};
}

Bytes MemoryWalk::page_size(bool small) const {
  return small ? kSmallBuffer : config_.large_segment_size;
}

Segment MemoryWalk::new_segment(const AllocatorRecord& event, bool expandable) const {
  Segment segment{0, event.stream, kDefaultPool, 0};
  bool small = event.size % config_.large_segment_size != 0;
  const std::size_t end = std::min(run_.allocator.size(), applied_ + 1 + kLookAhead);
  for (std::size_t i = applied_ + 1; i < end; ++i) {
    const AllocatorRecord& later = run_.allocator[i];
    if (later.action != AllocatorAction::alloc) continue;
    // An expandable request begins in the free block before the new pages (caching allocator 4.2).
    const bool ends_here = later.address + later.size > event.address;
    if (ends_here && later.address < event.address + event.size) {
      small = round_size(later.size, config_) <= kSmallSize;
      if (const BlockRecord* block = record_of(run_, later.block)) segment.pool = block->pool;
    }
    break;
  }
  if (expandable) segment.page = page_size(small);
  return segment;
}

bool MemoryWalk::apply_alloc(const AllocatorRecord& event) {
  Held held{0, event.size, event.block, false, 0};
  if (const BlockRecord* block = record_of(run_, event.block)) held.size = block->size;
  if (held.size == 0) held.size = round_size(event.size, config_);
  const Bytes wanted = held.size;
  if (!state_.hold(event.address, held)) return false;
  return state_.held().at(event.address).size == wanted;
}

bool MemoryWalk::apply(const AllocatorRecord& event) {
  switch (event.action) {
    case AllocatorAction::alloc:
      return apply_alloc(event);
    case AllocatorAction::free_requested:
      if (!state_.request_free(event.address, applied_)) return false;
      // What completes in the same call never waited (caching allocator 5.1).
      if (applied_ + 1 < run_.allocator.size() && completes(event, run_.allocator[applied_ + 1]))
        return state_.release(event.address);
      return true;
    case AllocatorAction::free_completed:
      if (applied_ > 0 && run_.allocator[applied_ - 1].action == AllocatorAction::free_requested &&
          completes(run_.allocator[applied_ - 1], event))
        return true;
      return state_.release(event.address);
    case AllocatorAction::segment_alloc:
      return state_.add(event.address, event.size, new_segment(event, false), true);
    case AllocatorAction::segment_map:
      return state_.add(event.address, event.size, new_segment(event, true), true);
    case AllocatorAction::segment_free:
    case AllocatorAction::segment_unmap:
      return state_.remove(event.address, event.size);
    case AllocatorAction::snapshot:
    case AllocatorAction::oom:
    case AllocatorAction::unknown:
      return true;
  }
  return true;
}

bool MemoryWalk::next() {
  if (applied_ == run_.allocator.size()) return false;
  if (!apply(run_.allocator[applied_])) ++odd_;
  ++applied_;
  return true;
}

std::vector<BlockLife> block_lives(const Run& run) {
  std::vector<BlockLife> lives(run.blocks.size());
  for (std::size_t i = 0; i < run.allocator.size(); ++i) {
    const AllocatorRecord& event = run.allocator[i];
    if (event.block.value >= lives.size()) continue;
    BlockLife& life = lives[event.block.value];
    if (event.action == AllocatorAction::alloc) life.made = i;
    if (event.action == AllocatorAction::free_requested) life.freed = i;
    if (event.action == AllocatorAction::free_completed) life.back = i;
  }
  return lives;
}

}  // namespace foreshard::explain_detail
