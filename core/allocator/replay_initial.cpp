// The state before the first entry of a trace (caching allocator 10.1).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/allocator/address_intervals.hpp"
#include "core/allocator/replay_plan.hpp"
#include "core/allocator/sizes.hpp"

namespace foreshard::allocator_detail {
namespace {

/// A block that was live or pending before the first entry.
struct EarlyBlock {
  Address address = 0;
  Bytes requested = 0;
  Bytes size = 0;               ///< 0: not known
  Address bound = ~Address{0};  ///< it ends here at the latest: a block was made there while it was held
  bool pending = false;
  std::size_t completion = kNever;  ///< of its free
};

Address end_of(const SnapshotSegment& segment) {
  return segment.address + segment.total_size;
}

SnapshotSegment bare(const SnapshotSegment& like, Address begin, Address end) {
  SnapshotSegment segment;
  segment.address = begin;
  segment.total_size = end - begin;
  segment.stream = like.stream;
  segment.small_pool = like.small_pool;
  segment.is_expandable = like.is_expandable;
  return segment;
}

/// cudaMalloc segments: those given back without having been made, and the final ones without a beginning.
void early_segments(const ReplayPlan& plan, std::vector<InitialSegment>& out) {
  std::unordered_set<Address> open;  // made by the trace and still there; lookup only
  for (const ReplayEntry& entry : plan.entries) {
    if (entry.action == AllocatorAction::segment_alloc) open.insert(entry.address);
    if (entry.action != AllocatorAction::segment_free || open.erase(entry.address) > 0) continue;
    SnapshotSegment segment;
    segment.address = entry.address;
    segment.total_size = entry.size;
    segment.stream = entry.stream.value;
    segment.small_pool = entry.size == kSmallBuffer;  // 2.3: no other pool has segments of 2 MiB
    out.push_back({std::move(segment), kDefaultPool});
  }
  for (const InitialSegment& last : plan.final_segments) {
    const SnapshotSegment& segment = last.segment;
    if (segment.is_expandable || open.contains(segment.address)) continue;
    out.push_back({bare(segment, segment.address, end_of(segment)), last.pool});
  }
}

/// Whether pages that the trace unmapped belonged to a small pool: by a block in them, else by their size.
bool pages_are_small(const ReplayPlan& plan, Address begin, Address end) {
  for (const ReplayEntry& entry : plan.entries)
    if (entry.action == AllocatorAction::alloc && entry.address >= begin && entry.address < end)
      return round_size(entry.size, plan.config) <= kSmallSize;
  return (end - begin) % plan.config.large_segment_size != 0;
}

/// Mapped pages: those unmapped without having been mapped, and the final ones without a beginning.
void early_pages(const ReplayPlan& plan, std::vector<InitialSegment>& out) {
  AddressIntervals mapped;
  std::vector<InitialSegment> runs;
  for (const ReplayEntry& entry : plan.entries) {
    const Address end = entry.address + entry.size;
    if (entry.action == AllocatorAction::segment_map) mapped.add(entry.address, end);
    if (entry.action != AllocatorAction::segment_unmap) continue;
    for (const auto& [begin, stop] : mapped.gaps(entry.address, end)) {
      SnapshotSegment like;
      like.stream = entry.stream.value;
      like.is_expandable = true;
      like.small_pool = pages_are_small(plan, begin, stop);
      runs.push_back({bare(like, begin, stop), kDefaultPool});
    }
    mapped.remove(entry.address, end);
  }
  for (const InitialSegment& last : plan.final_segments) {
    if (!last.segment.is_expandable) continue;
    for (const auto& [begin, stop] : mapped.gaps(last.segment.address, end_of(last.segment)))
      runs.push_back({bare(last.segment, begin, stop), last.pool});
  }
  std::sort(runs.begin(), runs.end(),
            [](const auto& a, const auto& b) { return a.segment.address < b.segment.address; });
  for (InitialSegment& run : runs) {
    const bool joins = !out.empty() && out.back().segment.is_expandable &&
                       out.back().segment.stream == run.segment.stream &&
                       end_of(out.back().segment) == run.segment.address;
    if (joins)
      out.back().segment.total_size += run.segment.total_size;
    else
      out.push_back(std::move(run));
  }
}

/// One range for each (stream, pool, kind) with early pages. Its grid's origin: the lowest page that the
/// recording shows within reach below.
std::vector<InitialRange> early_ranges(const ReplayPlan& plan, const std::vector<InitialSegment>& segments) {
  std::vector<InitialRange> ranges;
  for (const InitialSegment& run : segments) {
    if (!run.segment.is_expandable) continue;
    const StreamId stream{static_cast<std::uint32_t>(run.segment.stream)};
    const auto same = [&](const InitialRange& range) {
      return range.stream == stream && range.small_pool == run.segment.small_pool && range.pool == run.pool &&
             run.segment.address - range.base < kRangeReach;
    };
    if (std::any_of(ranges.begin(), ranges.end(), same)) continue;
    const Bytes page = run.segment.small_pool ? kSmallBuffer : plan.config.large_segment_size;
    InitialRange range{run.segment.address, stream, run.segment.small_pool, run.pool};
    for (const ReplayEntry& entry : plan.entries) {
      const bool pages = entry.action == AllocatorAction::segment_map || entry.action == AllocatorAction::segment_unmap;
      if (!pages || entry.stream != stream || entry.address >= range.base) continue;
      const Bytes below = run.segment.address - entry.address;
      if (below < kRangeReach && below % page == 0) range.base = entry.address;
    }
    ranges.push_back(range);
  }
  return ranges;
}

/// The blocks that the trace frees without having made them, and those of the final state likewise.
std::map<Address, EarlyBlock> early_blocks(const ReplayPlan& plan) {
  std::map<Address, EarlyBlock> early;
  std::unordered_set<Address> held;  // lookup only
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    const ReplayEntry& entry = plan.entries[i];
    const bool requested = entry.action == AllocatorAction::free_requested;
    const bool completed = entry.action == AllocatorAction::free_completed;
    if (entry.action == AllocatorAction::alloc) held.insert(entry.address);
    if ((requested || completed) && !held.contains(entry.address) && !early.contains(entry.address)) {
      EarlyBlock block{.address = entry.address, .requested = entry.size, .pending = completed};
      block.completion = completed ? i : entry.completion;
      early[entry.address] = block;
    }
    if (requested) held.insert(entry.address);
    if (completed) held.erase(entry.address);
  }
  for (const InitialSegment& last : plan.final_segments) {
    for (const SnapshotBlock& block : last.segment.blocks) {
      if (block.state == BlockState::inactive) continue;
      const auto known = early.find(block.address);
      if (known != early.end() && known->second.completion == kNever) known->second.size = block.size;
      if (known != early.end() || held.contains(block.address)) continue;
      early[block.address] = {.address = block.address,
                              .requested = block.requested_size,
                              .size = block.size,
                              .pending = block.state == BlockState::pending_free};
    }
  }
  return early;
}

/// A block made while an early one is held ends it.
void bound_blocks(const ReplayPlan& plan, std::map<Address, EarlyBlock>& early) {
  std::map<Address, EarlyBlock*> held;
  for (auto& [address, block] : early) held[address] = &block;
  for (std::size_t i = 0; i < plan.entries.size() && !held.empty(); ++i) {
    const ReplayEntry& entry = plan.entries[i];
    if (entry.action == AllocatorAction::alloc) {
      const auto after = held.upper_bound(entry.address);
      if (after == held.begin()) continue;
      EarlyBlock& block = *std::prev(after)->second;
      if (block.address < entry.address) block.bound = std::min(block.bound, entry.address);
    } else if (entry.action == AllocatorAction::free_completed) {
      const auto it = held.find(entry.address);
      if (it != held.end() && it->second->completion == i) held.erase(it);
    }
  }
}

/// Whether `gap` bytes would have been split for a request of `rounded` bytes (2.4).
bool was_split(const ReplayPlan& plan, const InitialSegment& in, Bytes rounded, Bytes gap) {
  if (gap <= rounded) return false;
  const bool no_split = in.pool != kDefaultPool && plan.pool_options[in.pool.value - 1].no_split;
  if (no_split) return false;
  if (in.segment.small_pool || in.segment.is_expandable) return gap - rounded >= kMinBlockSize;
  return rounded < plan.config.max_split_size && gap - rounded > kSmallSize;
}

/// Lays the early blocks of one segment out; what lies between them was free.
void fill_segment(const ReplayPlan& plan, const std::map<Address, EarlyBlock>& early, InitialSegment& in,
                  std::vector<InitialPending>& pending) {
  const Address end = end_of(in.segment);
  Address next = in.segment.address;
  const auto add_free = [&](Address until) {
    if (next < until) in.segment.blocks.push_back({next, until - next, kUnknownRequestedSize, BlockState::inactive});
  };
  for (auto it = early.lower_bound(in.segment.address); it != early.end() && it->first < end; ++it) {
    const EarlyBlock& block = it->second;
    if (block.address < next) continue;  // inside its neighbour: verify() reports the free that finds nothing
    const auto after = std::next(it);
    const Address limit = std::min({end, block.bound, after == early.end() ? end : after->first});
    const Bytes gap = limit - block.address;
    const Bytes rounded = round_size(block.requested, plan.config);
    Bytes size = was_split(plan, in, rounded, gap) ? rounded : gap;
    if (block.size > 0) size = std::min(block.size, gap);
    add_free(block.address);
    in.segment.blocks.push_back(
        {block.address, size, block.requested, block.pending ? BlockState::pending_free : BlockState::live});
    if (block.pending) pending.push_back({block.address, block.completion});
    next = block.address + size;
  }
  add_free(end);
}

}  // namespace

Result<InitialState> reconstruct(const ReplayPlan& plan) {
  InitialState state;
  early_pages(plan, state.segments);
  early_segments(plan, state.segments);
  std::sort(state.segments.begin(), state.segments.end(),
            [](const auto& a, const auto& b) { return a.segment.address < b.segment.address; });
  for (std::size_t i = 1; i < state.segments.size(); ++i)
    if (end_of(state.segments[i - 1].segment) > state.segments[i].segment.address)
      return fail(ErrorKind::input, "two segments of before the recording overlap",
                  fmt::format("segment {:#x}", state.segments[i].segment.address),
                  "the trace is incomplete or damaged: its segment entries contradict its final segments");
  state.ranges = early_ranges(plan, state.segments);
  std::map<Address, EarlyBlock> early = early_blocks(plan);
  bound_blocks(plan, early);
  for (InitialSegment& in : state.segments) fill_segment(plan, early, in, state.pending);
  return state;
}

}  // namespace foreshard::allocator_detail
