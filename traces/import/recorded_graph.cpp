#include "traces/import/recorded_graph.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/capture/range_meaning.hpp"
#include "traces/import/recorded_steps.hpp"
#include "traces/import/snapshot_ranges.hpp"

namespace foreshard::traces {
namespace {

constexpr std::size_t kFewSteps = 2;
constexpr std::string_view kLaunch = "cudaGraphLaunch";

bool of_capture(const SnapshotSegment& segment) {
  return segment.pool_id.first != 0;
}

/// Address ranges of the captures' pools, by begin.
std::map<Address, Address> capture_ranges(const Snapshot& snapshot) {
  std::map<Address, Address> out;
  for (const SnapshotSegment& segment : snapshot.segments)
    if (of_capture(segment)) out.emplace(segment.address, segment.address + segment.total_size);
  return out;
}

bool inside(const std::map<Address, Address>& ranges, Address address) {
  const auto after = ranges.upper_bound(address);
  return after != ranges.begin() && address < std::prev(after)->second;
}

/// The first event that got memory for a capture's pool. Other segments may have lain at its addresses before: of those
/// that begin where one of the pool begins the last is the pool's; pages of an expandable range are its own.
std::size_t first_of(const Snapshot& snapshot) {
  std::map<Address, bool> wanted;  // segments of cudaMalloc: whether found
  std::map<Address, Address> expandable;
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (!of_capture(segment)) continue;
    if (segment.is_expandable)
      expandable.emplace(segment.address, segment.address + segment.total_size);
    else
      wanted.emplace(segment.address, false);
  }
  std::size_t first = snapshot.events.size();
  for (std::size_t i = snapshot.events.size(); i-- > 0;) {
    const AllocatorEvent& event = snapshot.events[i];
    if (event.action == AllocatorAction::segment_map && inside(expandable, event.address)) first = i;
    if (event.action != AllocatorAction::segment_alloc) continue;
    const auto at = wanted.find(event.address);
    if (at != wanted.end() && !std::exchange(at->second, true)) first = i;
  }
  return first;
}

/// The stream that most of the pool's allocations are made on.
std::uint64_t stream_of(const Snapshot& snapshot, const std::map<Address, Address>& ranges, std::size_t first) {
  std::map<std::uint64_t, std::size_t> allocs;
  for (std::size_t i = first; i < snapshot.events.size(); ++i) {
    const AllocatorEvent& event = snapshot.events[i];
    if (event.action == AllocatorAction::alloc && inside(ranges, event.address)) ++allocs[event.stream];
  }
  const auto most =
      std::max_element(allocs.begin(), allocs.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == allocs.end() ? 0 : most->first;
}

bool allocates_on(const Snapshot& snapshot, std::uint64_t stream, std::size_t begin, std::size_t end) {
  return std::any_of(snapshot.events.begin() + static_cast<std::ptrdiff_t>(begin),
                     snapshot.events.begin() + static_cast<std::ptrdiff_t>(end), [&](const AllocatorEvent& event) {
                       return event.action == AllocatorAction::alloc && event.stream == stream;
                     });
}

/// Streams of a replay's ops by what they do, as FSDP2 and import call them.
constexpr std::array<std::string_view, 4> kLanes{"compute", "all-gather", "reduce-scatter", "other collectives"};

std::size_t lane_of(const DeviceOpRecord& op) {
  if (op.kind != DeviceOpRecord::Kind::collective) return 0;
  if (op.collective == CollectiveKind::all_gather) return 1;
  return op.collective == CollectiveKind::reduce_scatter ? 2 : 3;
}

std::vector<const HostOpRecord*> launches_of(const Run& trace) {
  std::vector<const HostOpRecord*> out;
  for (const HostOpRecord& op : trace.host_ops)
    if (op.kind == HostOpRecord::Kind::runtime && trace.labels.text(op.label) == kLaunch) out.push_back(&op);
  return out;
}

}  // namespace

std::optional<RecordedGraph> find_graph(const Snapshot& snapshot, const Hooks& hooks) {
  const auto ranges = capture_ranges(snapshot);
  const std::size_t first = first_of(snapshot);
  if (first == snapshot.events.size()) return std::nullopt;
  const std::int64_t origin = snapshot_origin_us(snapshot);
  std::vector<Nanoseconds> begins;
  for (const StepPlaces& step : hooks.steps) begins.push_back(step.begin);
  std::vector<std::size_t> events = events_at(snapshot, begins);
  const auto captured = std::upper_bound(events.begin(), events.end(), first);
  if (captured == events.begin() || captured == events.begin() + 1) return std::nullopt;
  const auto step = static_cast<std::size_t>(captured - events.begin()) - 1;
  RecordedGraph out;
  out.stream = stream_of(snapshot, ranges, first);
  std::size_t eager = 0;
  while (eager < step && (out.stream == 0 || !allocates_on(snapshot, out.stream, events[eager], events[eager + 1])))
    ++eager;
  // Behind the last step before another kind of step lies what the program does between them: it is left out where two
  // others are there.
  const std::size_t last = eager > 0 ? eager : step;
  out.eager_until_us = origin + begins[last > kFewSteps ? last - 1 : last].count / 1000;
  out.steps = {static_cast<std::uint32_t>(eager), static_cast<std::uint32_t>(step - eager)};
  if (out.steps.warm_up_steps == 0) return std::nullopt;
  return out;
}

Snapshot eager_part(const Snapshot& snapshot, const RecordedGraph& graph) {
  const bool warms_up = graph.steps.eager_steps == 0;
  const std::int64_t end = graph.eager_until_us;
  Snapshot out = snapshot;
  std::erase_if(out.events, [&](const AllocatorEvent& event) { return event.time_us >= end; });
  std::erase_if(out.annotations, [&](const SnapshotAnnotation& annotation) { return annotation.time_us >= end; });
  std::erase_if(out.segments, of_capture);
  if (!warms_up) return out;
  for (AllocatorEvent& event : out.events)
    if (event.stream == graph.stream) event.stream = 0;
  for (SnapshotSegment& segment : out.segments)
    if (segment.stream == graph.stream) segment.stream = 0;
  return out;
}

bool replays_alone(const Run& trace) {
  if (launches_of(trace).empty()) return false;
  const std::vector<Range> ranges = trace_ranges(trace);
  return std::none_of(ranges.begin(), ranges.end(),
                      [](const Range& range) { return has_unit(meaning_of(range.name).kind); });
}

void take_replays(Run& trace) {
  const std::vector<const HostOpRecord*> launches = launches_of(trace);
  std::set<std::uint64_t> of_graph;
  for (const HostOpRecord* launch : launches) of_graph.insert(launch->correlation);
  std::set<StreamId> others;
  for (const DeviceOpRecord& op : trace.device_ops)
    if (!of_graph.contains(op.correlation)) others.insert(op.stream);
  std::array<StreamId, kLanes.size()> lanes{kComputeStream};
  std::vector<StreamRecord> streams;
  for (const StreamRecord& stream : trace.streams)
    if (stream.id == kComputeStream || others.contains(stream.id)) streams.push_back(stream);
  std::uint32_t next = 0;
  for (const StreamRecord& stream : trace.streams) next = std::max(next, stream.id.value + 1);
  for (std::size_t lane = 1; lane < kLanes.size(); ++lane) {
    lanes[lane] = StreamId{next++};
    streams.push_back({lanes[lane], std::string(kLanes[lane]), 0, 0});
  }
  for (DeviceOpRecord& op : trace.device_ops)
    if (of_graph.contains(op.correlation)) op.stream = lanes[lane_of(op)];
  std::erase_if(streams, [&](const StreamRecord& stream) {
    return std::none_of(trace.device_ops.begin(), trace.device_ops.end(),
                        [&](const DeviceOpRecord& op) { return op.stream == stream.id; });
  });
  trace.streams = std::move(streams);
  trace.steps.clear();
  for (std::size_t i = 0; i < launches.size(); ++i) {
    StepRecord step;
    step.recording = Recording::trace;
    step.index = static_cast<std::int32_t>(i);
    step.start = launches[i]->start;
    step.end = launches[i]->end;
    if (i + 1 < launches.size()) {
      step.end = launches[i + 1]->start;
    } else {
      for (const DeviceOpRecord& op : trace.device_ops) step.end = std::max(step.end, op.issue + Nanoseconds{1});
    }
    trace.steps.push_back(step);
    trace.phases.push_back({step.index, Recording::trace, "graph replay", launches[i]->start, launches[i]->end});
  }
}

}  // namespace foreshard::traces
