#include "traces/import/recorded_graph.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/run/graph_replay.hpp"
#include "traces/capture/range_meaning.hpp"
#include "traces/import/recorded_steps.hpp"
#include "traces/import/snapshot_ranges.hpp"

namespace foreshard::traces {
namespace {

constexpr std::size_t kFewSteps = 2;
constexpr std::string_view kLaunch = "cudaGraphLaunch";

/// Address ranges of the pools, by begin.
std::map<Address, Address> ranges_of(const Snapshot& snapshot, const GraphPoolIds& pools) {
  std::map<Address, Address> out;
  for (const SnapshotSegment& segment : snapshot.segments)
    if (pools.contains(segment.pool_id)) out.emplace(segment.address, segment.address + segment.total_size);
  return out;
}

bool inside(const std::map<Address, Address>& ranges, Address address) {
  const auto after = ranges.upper_bound(address);
  return after != ranges.begin() && address < std::prev(after)->second;
}

/// The first event that got memory for one of the pools. Other segments may have lain at its addresses before: of those
/// that begin where one of the pool begins the last is the pool's; pages of an expandable range are its own.
std::size_t first_of(const Snapshot& snapshot, const GraphPoolIds& pools) {
  std::map<Address, bool> wanted;  // segments of cudaMalloc: whether found
  std::map<Address, Address> expandable;
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (!pools.contains(segment.pool_id)) continue;
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

/// From its first forward to the end of its last backward; empty where it has no such places.
Range passes_of(const Hooks& hooks, const StepPlaces& step) {
  Range out{{}, step.end, step.begin};
  for (const HookPlace& place : std::span(hooks.places).subspan(step.first, step.count)) {
    if (place.hook == Hook::forward_begin) out.start = std::min(out.start, place.time);
    if (place.hook == Hook::backward_end) out.end = place.time;
  }
  return out;
}

struct PoolUse {
  std::size_t inside = 0;
  std::size_t outside = 0;
};

/// Allocations of a step's passes. `first`: what came before lay in other segments.
PoolUse use_of(const Snapshot& snapshot, const std::map<Address, Address>& ranges, std::size_t first,
               const Range& passes) {
  const std::int64_t origin = snapshot_origin_us(snapshot);
  PoolUse out;
  for (std::size_t i = 0; i < snapshot.events.size(); ++i) {
    const AllocatorEvent& event = snapshot.events[i];
    const Nanoseconds time = Nanoseconds::from_us(event.time_us - origin);
    if (event.action != AllocatorAction::alloc || time < passes.start || time >= passes.end) continue;
    ++(i >= first && inside(ranges, event.address) ? out.inside : out.outside);
  }
  return out;
}

/// Whether a pool of torch.cuda.graph_pool_handle() or a MemPool is one of captures: all that some step's passes
/// allocate lies in it, on whichever stream, and nothing of the step behind, which replays or warms another graph up.
/// What use_mem_pool() routes there goes on in the step behind; a pool of FSDP2's buffers has those alone.
bool captures_into(const Snapshot& snapshot, const Hooks& hooks, const GraphPoolIds& pool) {
  const auto ranges = ranges_of(snapshot, pool);
  const std::size_t first = first_of(snapshot, pool);
  const auto use = [&](const StepPlaces& step) { return use_of(snapshot, ranges, first, passes_of(hooks, step)); };
  for (std::size_t i = 1; i < hooks.steps.size(); ++i) {
    const PoolUse here = use(hooks.steps[i]);
    if (here.inside == 0) continue;
    return here.outside == 0 && (i + 1 == hooks.steps.size() || use(hooks.steps[i + 1]).inside == 0);
  }
  return false;
}

/// Those that captures made (6.1), or without any the ones that the passes of a step went into.
GraphPoolIds pools_of(const Snapshot& snapshot, const Hooks& hooks) {
  GraphPoolIds own;
  GraphPoolIds others;
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (segment.pool_id.first != 0) own.insert(segment.pool_id);
    if (segment.pool_id.first == 0 && segment.pool_id.second != 0) others.insert(segment.pool_id);
  }
  if (own.empty())
    for (const GraphPoolId& pool : others)
      if (captures_into(snapshot, hooks, {pool})) own.insert(pool);
  return own;
}

/// Steps whose passes are captured into the pools, as the hooks number them.
std::vector<std::int32_t> captures_in(const Snapshot& snapshot, const Hooks& hooks, const GraphPoolIds& pools,
                                      std::size_t first) {
  const auto ranges = ranges_of(snapshot, pools);
  std::vector<std::int32_t> out;
  for (const StepPlaces& step : hooks.steps)
    if (const PoolUse use = use_of(snapshot, ranges, first, passes_of(hooks, step)); use.inside > 0 && use.outside == 0)
      out.push_back(step.index);
  return out;
}

/// Pools that the step's passes allocate in.
std::size_t pools_in(const Snapshot& snapshot, const Hooks& hooks, const GraphPoolIds& pools, const StepPlaces& step) {
  return static_cast<std::size_t>(std::count_if(pools.begin(), pools.end(), [&](const GraphPoolId& pool) {
    const std::size_t first = first_of(snapshot, {pool});
    return use_of(snapshot, ranges_of(snapshot, {pool}), first, passes_of(hooks, step)).inside > 0;
  }));
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

/// Of the steps of a trace of replays: where the optimizer and zero_grad were called.
void add_optimizer_phases(Run& trace) {
  std::vector<PhaseRecord> phases;
  for (const Range& range : trace_ranges(trace)) {
    const RangeKind kind = meaning_of(range.name).kind;
    if (kind != RangeKind::optimizer_step && kind != RangeKind::zero_grad) continue;
    for (const StepRecord& step : trace.steps)
      if (range.start >= step.start && range.start < step.end)
        phases.push_back({step.index, Recording::trace, kind == RangeKind::zero_grad ? "zero_grad" : "optimizer",
                          range.start, std::min(range.end, step.end)});
  }
  trace.phases.insert(trace.phases.end(), phases.begin(), phases.end());
  std::stable_sort(trace.phases.begin(), trace.phases.end(),
                   [](const PhaseRecord& a, const PhaseRecord& b) { return a.start < b.start; });
}

std::vector<const HostOpRecord*> launches_of(const Run& trace) {
  std::vector<const HostOpRecord*> out;
  for (const HostOpRecord& op : trace.host_ops)
    if (op.kind == HostOpRecord::Kind::runtime && trace.labels.text(op.label) == kLaunch) out.push_back(&op);
  return out;
}

/// Places among the launches of those that begin a step.
std::vector<std::size_t> first_of_steps(const Run& trace, const std::vector<const HostOpRecord*>& launches) {
  std::vector<Nanoseconds> optimizers;
  std::vector<Nanoseconds> profiled;
  for (const Range& range : trace_ranges(trace)) {
    if (meaning_of(range.name).kind == RangeKind::optimizer_step) optimizers.push_back(range.start);
    if (range.name.starts_with("ProfilerStep#")) profiled.push_back(range.start);
  }
  const std::vector<Nanoseconds>& between = optimizers.empty() ? profiled : optimizers;
  const auto behind = [&](const HostOpRecord* launch) {
    return std::upper_bound(between.begin(), between.end(), launch->start) - between.begin();
  };
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < launches.size(); ++i)
    if (i == 0 || between.empty() || behind(launches[i - 1]) != behind(launches[i])) out.push_back(i);
  return out;
}

}  // namespace

std::optional<RecordedGraph> find_graph(const Snapshot& snapshot, const Hooks& hooks) {
  const GraphPoolIds pools = pools_of(snapshot, hooks);
  const auto ranges = ranges_of(snapshot, pools);
  const std::size_t first = first_of(snapshot, pools);
  if (first == snapshot.events.size()) return std::nullopt;
  const std::int64_t origin = snapshot_origin_us(snapshot);
  std::vector<Nanoseconds> begins;
  for (const StepPlaces& step : hooks.steps) begins.push_back(step.begin);
  std::vector<std::size_t> events = events_at(snapshot, begins);
  const auto captured = std::upper_bound(events.begin(), events.end(), first);
  if (captured == events.begin() || captured == events.begin() + 1) return std::nullopt;
  const auto step = static_cast<std::size_t>(captured - events.begin()) - 1;
  RecordedGraph out;
  out.pools = pools;
  const std::vector<std::int32_t> captures = captures_in(snapshot, hooks, pools, first);
  out.captures = captures.size();
  out.graphs = std::max<std::size_t>(1, pools_in(snapshot, hooks, pools, hooks.steps[step]));
  out.stream = stream_of(snapshot, ranges, first);
  out.captured = hooks.steps[step].index;
  out.last_captured = captures.empty() ? out.captured : std::max(out.captured, captures.back());
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

void add_replays(const RecordedGraph& graph, std::span<const Range> ranges, Hooks& hooks) {
  const auto step_of = [&](std::int32_t index) {
    return std::find_if(hooks.steps.begin(), hooks.steps.end(),
                        [&](const StepPlaces& step) { return step.index == index; });
  };
  const auto first = step_of(graph.captured);
  const auto captured = step_of(graph.last_captured);
  if (first == hooks.steps.begin() || first == hooks.steps.end()) return;
  if (captured == hooks.steps.end() || !captured->complete) return;
  const auto trains = [&](const StepPlaces& step) {
    const Range passes = passes_of(hooks, step);
    return passes.start < passes.end;
  };
  if (std::any_of(std::next(captured), hooks.steps.end(), trains)) return;
  const StepPlaces& before = *std::prev(first);
  std::vector<Range> optimizers;  // from the capture's step on
  std::size_t each = 0;
  for (const Range& range : ranges) {
    if (meaning_of(range.name).kind != RangeKind::optimizer_step) continue;
    if (range.start >= before.begin && range.start < before.end) ++each;
    if (range.start >= captured->begin) optimizers.push_back(range);
  }
  if (each == 0 || optimizers.size() < each) return;
  hooks.places.resize(captured->first + captured->count);
  hooks.steps.erase(std::next(captured), hooks.steps.end());
  // The optimizers of replays follow one another with no other range between: they counted as the capture's.
  StepPlaces last = hooks.steps.back();
  last.end = optimizers[each - 1].end;
  for (std::size_t i = last.first; i < hooks.places.size(); ++i)
    if (hooks.places[i].hook == Hook::optimizer_end) hooks.places[i].time = last.end;
  hooks.steps.back() = last;
  for (std::size_t k = each; k + each <= optimizers.size(); k += each) {
    StepPlaces replay;
    replay.index = last.index + 1;
    replay.begin = last.end;
    replay.end = optimizers[k + each - 1].end;
    replay.complete = true;
    replay.first = hooks.places.size();
    replay.count = 2;
    hooks.places.push_back({Hook::optimizer_begin, {}, optimizers[k].start, false, replay.index, 0});
    hooks.places.push_back({Hook::optimizer_end, {}, replay.end, true, replay.index, 0});
    hooks.steps.push_back(replay);
    last = replay;
  }
}

Snapshot eager_part(const Snapshot& snapshot, const RecordedGraph& graph) {
  const bool warms_up = graph.steps.eager_steps == 0;
  const std::int64_t end = graph.eager_until_us;
  Snapshot out = snapshot;
  std::erase_if(out.events, [&](const AllocatorEvent& event) { return event.time_us >= end; });
  std::erase_if(out.annotations, [&](const SnapshotAnnotation& annotation) { return annotation.time_us >= end; });
  std::erase_if(out.segments, [&](const SnapshotSegment& segment) { return graph.pools.contains(segment.pool_id); });
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
  const std::vector<std::size_t> first = first_of_steps(trace, launches);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const bool last = i + 1 == first.size();
    StepRecord step;
    step.recording = Recording::trace;
    step.index = static_cast<std::int32_t>(i);
    step.start = launches[first[i]]->start;
    const Nanoseconds launched = launches[(last ? launches.size() : first[i + 1]) - 1]->end;
    step.end = last ? launched : launches[first[i + 1]]->start;
    for (const DeviceOpRecord& op : trace.device_ops)
      if (last) step.end = std::max(step.end, op.issue + Nanoseconds{1});
    trace.steps.push_back(step);
    trace.phases.push_back({step.index, Recording::trace, std::string(kGraphReplay), step.start, launched});
  }
  add_optimizer_phases(trace);
}

}  // namespace foreshard::traces
