// A CUDA graph in a recording: found by its pool and its stream, cut off, and its replays as steps.
#include "traces/import/recorded_graph.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "core/run/graph_replay.hpp"
#include "tests/catch.hpp"
#include "traces/import/graph_notes.hpp"
#include "traces/import/recorded_steps.hpp"

namespace foreshard::test {
namespace {

using namespace foreshard::traces;

constexpr std::uint64_t kSide = 0xbeef;
constexpr std::int64_t kStepUs = 1000;
constexpr Address kPool = 0x7f0000000000;

/// `eager` steps on the default stream, `warm_up` on another, then a capture: each step one alloc of a pass on its
/// stream and one of FSDP2's on a stream of its own.
struct Recorded {
  Snapshot snapshot;
  Hooks hooks;
};

Recorded recorded(std::uint32_t eager, std::uint32_t warm_up, bool captures = true) {
  Recorded out;
  const auto event = [&](AllocatorAction action, Address address, std::uint64_t stream, std::int64_t at) {
    AllocatorEvent one;
    one.action = action;
    one.address = address;
    one.size = 2 * kMiB;
    one.stream = stream;
    one.time_us = at;
    out.snapshot.events.push_back(one);
  };
  const std::uint32_t steps = eager + warm_up + (captures ? 1 : 0);
  for (std::uint32_t k = 0; k < steps; ++k) {
    const std::int64_t begin = k * kStepUs;
    const bool captured = k == eager + warm_up;
    StepPlaces places;
    places.index = static_cast<std::int32_t>(k);
    places.begin = Nanoseconds::from_us(begin);
    places.end = Nanoseconds::from_us(begin + kStepUs);
    places.complete = true;
    places.first = out.hooks.places.size();
    for (const auto& [hook, us] : {std::pair{Hook::forward_begin, 8},
                                   {Hook::backward_end, 500},
                                   {Hook::optimizer_begin, 600},
                                   {Hook::optimizer_end, 700}})
      out.hooks.places.push_back({hook, {}, Nanoseconds::from_us(begin + us), false, places.index, 0});
    places.count = out.hooks.places.size() - places.first;
    out.hooks.steps.push_back(places);
    // An eager segment at the pool's address, given back before: it is not the pool's.
    if (k == 0) event(AllocatorAction::segment_alloc, kPool, 0, begin);
    if (captured) {
      event(AllocatorAction::segment_free, kPool, 0, begin + 10);
      event(AllocatorAction::segment_alloc, kPool, kSide, begin + 20);
      event(AllocatorAction::alloc, kPool + 512, 7, begin + 25);
    }
    event(AllocatorAction::alloc, captured ? kPool : 0x1000 * (k + 1), k < eager ? 0 : kSide, begin + 30);
    if (captured) event(AllocatorAction::alloc, kPool + 1024, kSide, begin + 40);
    out.snapshot.annotations.push_back({true, "FSDP::pre_forward", 0, begin + 5});
  }
  SnapshotSegment small;
  small.address = 0x1000;
  small.total_size = 2 * kMiB;
  out.snapshot.segments.push_back(small);
  if (captures) {
    SnapshotSegment pool;
    pool.address = kPool;
    pool.total_size = 2 * kMiB;
    pool.stream = kSide;
    pool.pool_id = {1, 0};
    out.snapshot.segments.push_back(pool);
  }
  return out;
}

}  // namespace

TEST_CASE("steps before a capture are eager until they allocate on its stream") {
  for (const std::uint32_t eager : {0U, 1U, 4U}) {
    const Recorded r = recorded(eager, 3);
    const auto graph = find_graph(r.snapshot, r.hooks);
    REQUIRE(graph);
    CHECK(graph->steps == CudaGraph{eager, 3});
    CHECK(graph->stream == kSide);
    CHECK(graph->eager_until_us == (eager == 0 ? 2 : eager == 1 ? 1 : 3) * kStepUs);
  }
}

TEST_CASE("without a capture's pool, or a step before it, there is no graph") {
  const Recorded none = recorded(4, 0, false);
  CHECK_FALSE(find_graph(none.snapshot, none.hooks));
  const Recorded first = recorded(0, 0);
  CHECK_FALSE(find_graph(first.snapshot, first.hooks));
  CHECK_FALSE(find_graph({}, {}));
}

TEST_CASE("a capture into a pool of graph_pool_handle() is found by a step whose passes all lie in it") {
  Recorded r = recorded(4, 3);
  r.snapshot.segments.back().pool_id = {0, 7};
  const auto graph = find_graph(r.snapshot, r.hooks);
  REQUIRE(graph);
  CHECK(graph->steps == CudaGraph{4, 3});
  CHECK(graph->pools == GraphPoolIds{{0, 7}});
  CHECK(graph->captures == 1);
  CHECK(eager_part(r.snapshot, *graph).segments.size() == 1);
  // A MemPool, where a part of the passes lies elsewhere: FSDP2's symmetric buffers.
  Recorded part = r;
  AllocatorEvent other = part.snapshot.events.back();
  other.address = 0x1000;
  part.snapshot.events.push_back(other);
  CHECK_FALSE(find_graph(part.snapshot, part.hooks));
  // use_mem_pool around the passes of this step and the one behind.
  Recorded routed = r;
  StepPlaces next = routed.hooks.steps.back();
  ++next.index;
  next.begin = next.end;
  next.end = next.begin + Nanoseconds::from_us(kStepUs);
  next.first = routed.hooks.places.size();
  for (std::size_t i = 0; i < next.count; ++i) {
    HookPlace place = routed.hooks.places[r.hooks.steps.back().first + i];
    place.time += Nanoseconds::from_us(kStepUs);
    routed.hooks.places.push_back(place);
  }
  routed.hooks.steps.push_back(next);
  AllocatorEvent again = r.snapshot.events.back();
  again.time_us += kStepUs;
  routed.snapshot.events.push_back(again);
  CHECK_FALSE(find_graph(routed.snapshot, routed.hooks));
  // The next graph warms up outside of the pool that both share, and is captured into it.
  routed.snapshot.events.back().address = 0x9000;
  REQUIRE(find_graph(routed.snapshot, routed.hooks));
  StepPlaces third = next;
  third.begin = next.end;
  third.end = third.begin + Nanoseconds::from_us(kStepUs);
  third.first = routed.hooks.places.size();
  for (std::size_t i = 0; i < next.count; ++i) {
    HookPlace place = routed.hooks.places[next.first + i];
    place.time += Nanoseconds::from_us(kStepUs);
    routed.hooks.places.push_back(place);
  }
  routed.hooks.steps.push_back(third);
  again.time_us += kStepUs;
  routed.snapshot.events.push_back(again);
  const auto shared = find_graph(routed.snapshot, routed.hooks);
  REQUIRE(shared);
  CHECK(shared->captures == 2);
  CHECK(shared->captured == 7);
}

TEST_CASE("steps behind a capture are its replays, each up to the end of its optimizer") {
  const Recorded r = recorded(1, 2);
  const auto graph = find_graph(r.snapshot, r.hooks);
  REQUIRE(graph);
  CHECK(graph->captured == 3);
  std::vector<Range> ranges;
  for (std::int64_t step = 0; step < 6; ++step)
    ranges.push_back({"Optimizer.step#Adam.step", Nanoseconds::from_us(step * kStepUs + 600),
                      Nanoseconds::from_us(step * kStepUs + 700)});
  Hooks hooks = r.hooks;
  // Without another range between them the optimizers of replays counted as the capture's.
  hooks.steps.back().end = hooks.places.back().time = ranges.back().end;
  add_replays(*graph, ranges, hooks);
  REQUIRE(hooks.steps.size() == 6);
  CHECK(hooks.steps[3].end == Nanoseconds::from_us(3700));
  CHECK(hooks.places[hooks.steps[3].first + 3].time == Nanoseconds::from_us(3700));
  for (const std::size_t k : {4U, 5U}) {
    const StepPlaces& replay = hooks.steps[k];
    CHECK(replay.index == static_cast<std::int32_t>(k));
    CHECK(replay.complete);
    CHECK(replay.begin == hooks.steps[k - 1].end);
    CHECK(replay.end == ranges[k].end);
  }
  const auto phases = phase_records(hooks, Recording::snapshot);
  const auto last = std::span(phases).last(2);
  CHECK((last[0].name == kGraphReplay && last[0].step == 5 && last[0].start == hooks.steps[5].begin));
  CHECK((last[1].name == "optimizer" && last[1].start == last[0].end));
}

TEST_CASE("allocations of warm-up, capture and replays are what those of the last eager step are") {
  const Recorded r = recorded(1, 1);
  Snapshot snapshot;
  Hooks hooks = r.hooks;
  const auto alloc = [&](std::int64_t step, std::int64_t us, Bytes size) {
    AllocatorEvent one;
    one.action = AllocatorAction::alloc;
    one.size = size;
    one.time_us = step * kStepUs + us;
    snapshot.events.push_back(one);
  };
  snapshot.annotations.push_back({true, "FSDP::pre_forward", 0, 0});
  for (const std::int64_t step : {0, 1, 2}) {
    if (step > 0) alloc(step, 5, 77);  // a workspace of the side stream, and the generator's state
    alloc(step, 10, 100);
    if (step > 0) alloc(step, 15, 78);
    alloc(step, 20, 200);
    if (step == 0) alloc(step, 25, 300);  // in the eager step alone
    alloc(step, 30, 400);
    alloc(step, 610, 500);
  }
  std::vector<AllocationNote> eager(5);
  for (std::size_t i = 0; i < eager.size(); ++i) eager[i].category = static_cast<MemoryCategory>(i);
  RecordedGraph graph;
  graph.captured = 2;
  graph.eager_until_us = kStepUs;
  const auto notes = graph_notes(snapshot, hooks, graph, eager);
  REQUIRE(notes.size() == 17);
  for (const std::size_t first : {5U, 11U}) {
    CHECK_FALSE(notes[first]);
    CHECK_FALSE(notes[first + 2]);
    const std::array<std::pair<std::size_t, std::size_t>, 4> same{{{1, 0}, {3, 1}, {4, 3}, {5, 4}}};
    for (const auto& [at, like] : same) {
      REQUIRE(notes[first + at]);
      CHECK(notes[first + at]->category == eager[like].category);
    }
  }
}

TEST_CASE("what is before the warm-up is the eager part, without the capture's pool") {
  const Recorded r = recorded(4, 3);
  const Snapshot eager = eager_part(r.snapshot, *find_graph(r.snapshot, r.hooks));
  CHECK(eager.events.size() == 4);  // a segment and a step's alloc, twice one more
  CHECK(eager.annotations.size() == 3);
  CHECK(eager.segments.size() == 1);
}

TEST_CASE("where every step warms up, their stream stands for the default one") {
  const Recorded r = recorded(0, 2);
  const Snapshot eager = eager_part(r.snapshot, *find_graph(r.snapshot, r.hooks));
  CHECK(eager.events.size() == 3);
  CHECK(std::none_of(eager.events.begin(), eager.events.end(),
                     [](const AllocatorEvent& event) { return event.stream == kSide; }));
}

TEST_CASE("each launch of a graph begins a step, its kernels on the streams of what they do") {
  Run trace;
  const LabelId launch = trace.labels.intern("cudaGraphLaunch"), kernel = trace.labels.intern("gemm");
  trace.streams = {{kComputeStream, "compute", 7, 0}, {StreamId{1}, "stream 8", 8, 0}, {StreamId{2}, "stream 9", 9, 0}};
  for (std::int64_t step = 0; step < 2; ++step) {
    const Nanoseconds at{step * 1000};
    const auto correlation = static_cast<std::uint64_t>(step + 1);
    trace.host_ops.push_back({HostOpRecord::Kind::runtime, 0, launch, at, at + Nanoseconds{10}, correlation});
    for (std::uint32_t s = 0; s < 3; ++s) {
      DeviceOpRecord op;
      op.kind = s == 2 ? DeviceOpRecord::Kind::collective : DeviceOpRecord::Kind::kernel;
      op.collective = CollectiveKind::reduce_scatter;
      op.stream = StreamId{s};
      op.label = kernel;
      op.issue = at;
      op.start = op.issue + Nanoseconds{20};
      op.end = op.start + Nanoseconds{5};
      op.correlation = correlation;
      trace.device_ops.push_back(op);
    }
  }
  REQUIRE(replays_alone(trace));
  take_replays(trace);
  REQUIRE(trace.steps.size() == 2);
  CHECK(trace.steps[0].end == trace.steps[1].start);
  CHECK(trace.device_ops[1].stream == kComputeStream);
  REQUIRE(trace.streams.size() == 2);
  CHECK(trace.streams[1].name == "reduce-scatter");
  CHECK(trace.device_ops[2].stream == trace.streams[1].id);
  trace.host_ops.push_back({HostOpRecord::Kind::annotation, 0, trace.labels.intern("FSDP::pre_forward (layers.0)"),
                            Nanoseconds{}, Nanoseconds{5}, 0});
  CHECK_FALSE(replays_alone(trace));
}

/// A trace of launches of graphs at these times, each of one kernel, with ranges at others.
Run launched(const std::vector<std::int64_t>& launches, const std::string& range,
             const std::vector<std::int64_t>& ranges) {
  Run trace;
  const LabelId launch = trace.labels.intern("cudaGraphLaunch"), between = trace.labels.intern(range);
  trace.streams = {{kComputeStream, "compute", 7, 0}};
  for (const std::int64_t time : launches) {
    const Nanoseconds at{time};
    const std::uint64_t correlation = trace.host_ops.size() + 1;
    trace.host_ops.push_back({HostOpRecord::Kind::runtime, 0, launch, at, at + Nanoseconds{10}, correlation});
    DeviceOpRecord op;
    op.kind = DeviceOpRecord::Kind::collective;
    op.collective = CollectiveKind::all_reduce;
    op.stream = kComputeStream;
    op.issue = at;
    op.start = at + Nanoseconds{20};
    op.end = at + Nanoseconds{25};
    op.correlation = correlation;
    trace.device_ops.push_back(op);
  }
  for (const std::int64_t time : ranges)
    trace.host_ops.push_back({HostOpRecord::Kind::annotation, 0, between, {time}, {time + 20}, 0});
  return trace;
}

TEST_CASE("graphs of forward and of backward that are launched in one step are one replay") {
  const std::string step = "Optimizer.step#Adam.step";
  for (const auto& [name, ranges] :
       {std::pair<std::string, std::vector<std::int64_t>>{step, {300, 1300}}, {"ProfilerStep#4", {0, 1000}}}) {
    INFO(name);
    Run trace = launched({100, 200, 1100, 1200}, name, ranges);
    REQUIRE(replays_alone(trace));
    take_replays(trace);
    REQUIRE(trace.steps.size() == 2);
    CHECK((trace.steps[0].start.count == 100 && trace.steps[0].end.count == 1100));
    CHECK(trace.steps[1].start.count == 1100);
    CHECK((trace.phases[0].name == kGraphReplay && trace.phases[0].end.count == 210));
    CHECK(std::count_if(trace.phases.begin(), trace.phases.end(), [](const PhaseRecord& phase) {
            return phase.name == "optimizer";
          }) == (name == step ? 1 : 0));  // the last has no kernels
    // The program's own all-reduce inside the graph: of no unit.
    REQUIRE(trace.streams.size() == 1);
    CHECK(trace.streams[0].name == "other collectives");
  }
  Run unknown = launched({100, 200}, "mine", {150});  // nothing says what a step is
  take_replays(unknown);
  CHECK(unknown.steps.size() == 2);
}

TEST_CASE("forward and backward captured apart are one step's graphs, whatever is eager between them") {
  Recorded r = recorded(4, 3);
  SnapshotSegment backward = r.snapshot.segments.back();
  backward.address = 0x90000000;
  backward.pool_id = {2, 0};
  r.snapshot.segments.push_back(backward);
  const std::int64_t step = r.snapshot.events.back().time_us;
  const auto event = [&](AllocatorAction action, Address address, std::int64_t us) {
    AllocatorEvent one;
    one.action = action;
    one.address = address;
    one.size = 512;
    one.stream = kSide;
    one.time_us = step + us;
    r.snapshot.events.push_back(one);
  };
  event(AllocatorAction::alloc, 0x1000, 10);  // the loss
  event(AllocatorAction::segment_alloc, backward.address, 20);
  event(AllocatorAction::alloc, backward.address, 30);
  const auto graph = find_graph(r.snapshot, r.hooks);
  REQUIRE(graph);
  CHECK(graph->steps == CudaGraph{4, 3});
  CHECK(graph->graphs == 2);
  CHECK(graph->captured == 7);
  CHECK(graph->last_captured == 7);
  CHECK(eager_part(r.snapshot, *graph).segments.size() == 1);
  CHECK(find_graph(recorded(4, 3).snapshot, recorded(4, 3).hooks)->graphs == 1);
}

TEST_CASE("replays are of the last capture where an earlier one was thrown away") {
  Recorded r = recorded(1, 2);
  // The next step captures again, into a pool of its own; the first one's pool is there still.
  SnapshotSegment second = r.snapshot.segments.back();
  second.address = 0x90000000;
  second.pool_id = {2, 0};
  r.snapshot.segments.push_back(second);
  for (const auto& [action, us] : {std::pair{AllocatorAction::segment_alloc, 20}, {AllocatorAction::alloc, 30}}) {
    AllocatorEvent one;
    one.action = action;
    one.address = second.address;
    one.size = 512;
    one.stream = kSide;
    one.time_us = 4 * kStepUs + us;
    r.snapshot.events.push_back(one);
  }
  StepPlaces step = r.hooks.steps.back();
  for (std::size_t i = 0; i < step.count; ++i) {
    HookPlace place = r.hooks.places[step.first + i];
    place.time += Nanoseconds::from_us(kStepUs);
    place.step = step.index + 1;
    r.hooks.places.push_back(place);
  }
  step.first += step.count;
  ++step.index;
  step.begin = step.end;
  step.end = step.begin + Nanoseconds::from_us(kStepUs);
  r.hooks.steps.push_back(step);
  const auto graph = find_graph(r.snapshot, r.hooks);
  REQUIRE(graph);
  CHECK(graph->captures == 2);
  CHECK(graph->captured == 3);
  CHECK(graph->last_captured == 4);
  CHECK(graph->graphs == 1);
  std::vector<Range> ranges;
  for (std::int64_t k = 0; k < 7; ++k)
    ranges.push_back(
        {"Optimizer.step#Adam.step", Nanoseconds::from_us(k * kStepUs + 600), Nanoseconds::from_us(k * kStepUs + 700)});
  Hooks hooks = r.hooks;
  hooks.steps.back().end = hooks.places.back().time = ranges.back().end;
  add_replays(*graph, ranges, hooks);
  REQUIRE(hooks.steps.size() == 7);
  CHECK(hooks.steps[4].end == Nanoseconds::from_us(4 * kStepUs + 700));
  CHECK(hooks.steps[6].end == ranges[6].end);
}

}  // namespace foreshard::test
