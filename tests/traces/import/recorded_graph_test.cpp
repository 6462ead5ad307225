// A CUDA graph in a recording: found by its pool and its stream, cut off, and its replays as steps.
#include "traces/import/recorded_graph.hpp"

#include <algorithm>

#include "tests/catch.hpp"

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

}  // namespace foreshard::test
