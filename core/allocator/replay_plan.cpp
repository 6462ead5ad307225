#include "core/allocator/replay_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "core/allocator/address_intervals.hpp"
#include "core/allocator/sizes.hpp"

namespace foreshard {

Result<AllocatorConfig> recorded_config(const SnapshotSettings& settings, std::string_view pytorch) {
  Result<AllocatorConfig> config = parse_alloc_conf(settings.alloc_conf, pytorch);
  if (!config) return config;
  // The settings hold the values in force; the string is the last one set (caching allocator 9.2).
  if (settings.max_split_size < 0)
    config->max_split_size = std::numeric_limits<Bytes>::max();
  else
    config->max_split_size = static_cast<Bytes>(settings.max_split_size);
  config->garbage_collection_threshold = settings.garbage_collection_threshold;
  config->expandable_segments = settings.expandable_segments;
  return config;
}

std::vector<std::size_t> annotation_starts(const Snapshot& snapshot, std::string_view name) {
  std::vector<std::size_t> starts;
  for (const SnapshotAnnotation& annotation : snapshot.annotations) {
    if (!annotation.start || annotation.name != name) continue;
    const auto it = std::partition_point(snapshot.events.begin(), snapshot.events.end(),
                                         [&](const auto& event) { return event.time_us < annotation.time_us; });
    starts.push_back(static_cast<std::size_t>(it - snapshot.events.begin()));
  }
  std::sort(starts.begin(), starts.end());
  return starts;
}

namespace allocator_detail {
namespace {

tl::unexpected<Error> contradiction(const std::string& what, const std::string& where) {
  return fail(ErrorKind::input, what, where, "the snapshot is damaged, or was not written by PyTorch");
}

bool is_segment_action(AllocatorAction action) {
  return action >= AllocatorAction::segment_alloc && action <= AllocatorAction::segment_unmap;
}

/// Why an entry cannot be replayed at all, or nothing.
std::optional<std::string> unusable(const AllocatorEvent& event) {
  const bool sized =
      event.action == AllocatorAction::alloc || event.action == AllocatorAction::oom || is_segment_action(event.action);
  if (sized && (event.size == 0 || event.size >= kMaxRequest)) return fmt::format("its size is {} bytes", event.size);
  if (event.action != AllocatorAction::oom && event.address >= kMaxRequest)
    return fmt::format("its address is {:#x}", event.address);
  return std::nullopt;
}

void collect_streams(const Snapshot& snapshot, ReplayPlan& plan) {
  for (const AllocatorEvent& event : snapshot.events) plan.streams.push_back(event.stream);
  for (const SnapshotSegment& segment : snapshot.segments) plan.streams.push_back(segment.stream);
  std::sort(plan.streams.begin(), plan.streams.end());
  plan.streams.erase(std::unique(plan.streams.begin(), plan.streams.end()), plan.streams.end());
}

StreamId stream_id(const ReplayPlan& plan, std::uint64_t raw) {
  const auto it = std::lower_bound(plan.streams.begin(), plan.streams.end(), raw);
  return StreamId{static_cast<std::uint32_t>(it - plan.streams.begin())};
}

void collect_pools(const Snapshot& snapshot, const ReplayOptions& options, ReplayPlan& plan) {
  for (const SnapshotSegment& segment : snapshot.segments)
    if (segment.pool_id != std::pair<std::uint64_t, std::uint64_t>{0, 0}) plan.pool_ids.push_back(segment.pool_id);
  std::sort(plan.pool_ids.begin(), plan.pool_ids.end());
  plan.pool_ids.erase(std::unique(plan.pool_ids.begin(), plan.pool_ids.end()), plan.pool_ids.end());
  for (const auto& id : plan.pool_ids) {
    const auto it =
        std::find_if(options.pools.begin(), options.pools.end(), [&](const auto& p) { return p.pool_id == id; });
    plan.pool_options.push_back(it == options.pools.end() ? PoolOptions{} : it->options);
  }
}

PoolId pool_id(const ReplayPlan& plan, const std::pair<std::uint64_t, std::uint64_t>& raw) {
  const auto it = std::lower_bound(plan.pool_ids.begin(), plan.pool_ids.end(), raw);
  if (it == plan.pool_ids.end() || *it != raw) return kDefaultPool;
  return PoolId{static_cast<std::uint32_t>(it - plan.pool_ids.begin() + 1)};
}

std::optional<Error> collect_entries(const Snapshot& snapshot, ReplayPlan& plan) {
  plan.entries.reserve(snapshot.events.size());
  for (std::size_t index = 0; index < snapshot.events.size(); ++index) {
    const AllocatorEvent& event = snapshot.events[index];
    if (event.action == AllocatorAction::snapshot || event.action == AllocatorAction::unknown) {
      ++plan.ignored_events;
      continue;
    }
    if (const auto why = unusable(event)) {
      const auto name = kAllocatorActionNames[static_cast<std::size_t>(event.action)];
      return contradiction(fmt::format("{} cannot be replayed: {}", name, *why), fmt::format("event {}", index))
          .value();
    }
    plan.entries.push_back(
        {event.action, event.address, event.size, stream_id(plan, event.stream), kDefaultPool, index, kNever});
  }
  return std::nullopt;
}

std::optional<Error> collect_segments(const Snapshot& snapshot, ReplayPlan& plan) {
  for (SnapshotSegment segment : snapshot.segments) {
    const std::string where = fmt::format("segment {:#x}", segment.address);
    if (segment.total_size == 0 || segment.total_size >= kMaxRequest || segment.address >= kMaxRequest)
      return contradiction("its size or address is out of range", where).value();
    Address next = segment.address;
    for (SnapshotBlock& block : segment.blocks) {
      if (block.address == 0) block.address = next;  // old snapshots do not write it (caching allocator 9.2)
      if (block.address != next || block.size == 0 || block.size > segment.total_size)
        return contradiction("its blocks do not tile it", where).value();
      next += block.size;
    }
    if (next != segment.address + segment.total_size) return contradiction("its blocks do not tile it", where).value();
    const PoolId pool = pool_id(plan, segment.pool_id);
    segment.stream = stream_id(plan, segment.stream).value;
    segment.pool_id = {0, pool.value};
    plan.final_segments.push_back({std::move(segment), pool});
  }
  auto& segments = plan.final_segments;
  std::sort(segments.begin(), segments.end(),
            [](const auto& a, const auto& b) { return a.segment.address < b.segment.address; });
  for (std::size_t i = 1; i < segments.size(); ++i)
    if (segments[i - 1].segment.address + segments[i - 1].segment.total_size > segments[i].segment.address)
      return contradiction("it overlaps the segment before it",
                           fmt::format("segment {:#x}", segments[i].segment.address))
          .value();
  return std::nullopt;
}

void join_completions(ReplayPlan& plan) {
  std::unordered_map<Address, std::size_t> waiting;  // lookup only
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    const ReplayEntry& entry = plan.entries[i];
    if (entry.action == AllocatorAction::free_requested) waiting[entry.address] = i;
    if (entry.action != AllocatorAction::free_completed) continue;
    const auto it = waiting.find(entry.address);
    if (it == waiting.end()) continue;
    plan.entries[it->second].completion = i;
    waiting.erase(it);
  }
}

const InitialSegment* segment_at(const std::vector<InitialSegment>& segments, Address address) {
  const auto after = std::upper_bound(segments.begin(), segments.end(), address,
                                      [](Address key, const InitialSegment& s) { return key < s.segment.address; });
  if (after == segments.begin()) return nullptr;
  const SnapshotSegment& segment = std::prev(after)->segment;
  return address - segment.address < segment.total_size ? &*std::prev(after) : nullptr;
}

/// The pool of each alloc, by its address in the final segments. An address range that was given back and
/// taken again counts for its last owner only; before, the default pool is assumed.
void route_allocs(ReplayPlan& plan) {
  if (plan.pool_ids.empty()) return;
  std::map<Address, std::size_t> last_owner;  // segment address → entry from which the final segment exists
  for (std::size_t i = 0; i < plan.entries.size(); ++i)
    if (plan.entries[i].action == AllocatorAction::segment_alloc) last_owner[plan.entries[i].address] = i;
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    ReplayEntry& entry = plan.entries[i];
    if (entry.action != AllocatorAction::alloc) continue;
    const InitialSegment* segment = segment_at(plan.final_segments, entry.address);
    if (!segment) continue;
    const auto owner = last_owner.find(segment->segment.address);
    if (owner == last_owner.end() || owner->second < i) entry.pool = segment->pool;
  }
}

}  // namespace

Result<ReplayPlan> make_plan(const Snapshot& snapshot, const ReplayOptions& options, const AllocatorConfig& config) {
  ReplayPlan plan;
  plan.config = config;
  if (snapshot.events.size() > (std::size_t{1} << 30))
    return fail(ErrorKind::input, "the trace has more than 2^30 entries", {}, "record a shorter stretch");
  collect_streams(snapshot, plan);
  collect_pools(snapshot, options, plan);
  if (auto error = collect_entries(snapshot, plan)) return tl::unexpected<Error>(std::move(*error));
  if (auto error = collect_segments(snapshot, plan)) return tl::unexpected<Error>(std::move(*error));
  join_completions(plan);
  route_allocs(plan);
  Result<InitialState> initial = reconstruct(plan);
  FORESHARD_TRY(initial);
  plan.initial = std::move(*initial);
  return plan;
}

}  // namespace allocator_detail
}  // namespace foreshard
