// A CUDA graph in a recording, end to end: a run with a graph becomes a snapshot, and import's view of it is held
// against what the run itself knows of every block.
#include <algorithm>
#include <set>
#include <tuple>

#include "core/run/graph_replay.hpp"
#include "core/settings/settings.hpp"
#include "tests/catch.hpp"
#include "tests/core/adapt/small_program.hpp"
#include "tests/traces/capture/memory/recording.hpp"
#include "traces/capture/capture.hpp"
#include "traces/import/graph_notes.hpp"
#include "traces/import/recorded_steps.hpp"
#include "traces/import/snapshot_ranges.hpp"

namespace foreshard::traces::test {
namespace {

constexpr std::int32_t kReplays = 3;

struct GraphRecording {
  Recorded recorded;
  Workload workload;
  RecordedGraph graph;
  Hooks hooks;
};

/// Two eager steps, two that warm up, the capture, and replays, of which only the optimizer leaves ranges.
GraphRecording record_graph(bool set_to_none) {
  Settings settings = foreshard::test::four_gpus();
  settings.param_dtype = DType::bfloat16;
  settings.reduce_dtype = DType::float32;
  settings.set_to_none = set_to_none;
  settings.cuda_graph = CudaGraph{2, 2};
  GraphRecording out;
  out.workload = foreshard::test::small_workload(settings, 3);
  out.recorded = record(out.workload, settings, 5 + kReplays);
  Snapshot& snapshot = out.recorded.snapshot;
  const auto captured_forward = [](const SnapshotAnnotation& a) { return a.name == "FSDP::root_pre_forward"; };
  const std::int64_t captured =
      std::find_if(snapshot.annotations.rbegin(), snapshot.annotations.rend(), captured_forward)->time_us;
  std::erase_if(snapshot.annotations, [&](const SnapshotAnnotation& a) {
    return a.time_us > captured && a.name.find("zero_grad") != std::string::npos;
  });
  const std::vector<Range> ranges = snapshot_ranges(snapshot);
  auto hooks = find_hooks(ranges, out.workload.units);
  REQUIRE(hooks);
  const auto graph = find_graph(snapshot, *hooks);
  REQUIRE(graph);
  out.graph = *graph;
  out.hooks = std::move(*hooks);
  add_replays(out.graph, ranges, out.hooks);
  return out;
}

std::vector<AllocationNote> eager_notes(const GraphRecording& of) {
  const Snapshot eager = eager_part(of.recorded.snapshot, of.graph);
  Settings settings = of.workload.settings;
  settings.cuda_graph.reset();
  const auto capture = read_capture(
      {.snapshot = eager, .initial_segments = {}, .settings = settings, .units = of.workload.units, .sm_count = 132});
  INFO((capture ? "" : capture.error().text()));
  REQUIRE(capture);
  return capture->allocations;
}

}  // namespace

TEST_CASE("a recorded graph has its replays as steps, and every block of warm-up, capture and replays its category") {
  for (const bool set_to_none : {true, false}) {
    INFO("set_to_none " << set_to_none);
    const GraphRecording r = record_graph(set_to_none);
    CHECK(r.graph.steps == CudaGraph{2, 2});
    CHECK(r.graph.captures == 1);
    REQUIRE(r.hooks.steps.size() == 5 + kReplays);
    const auto phases = phase_records(r.hooks, Recording::snapshot);
    CHECK(std::count_if(phases.begin(), phases.end(),
                        [](const PhaseRecord& phase) { return phase.name == kGraphReplay; }) == kReplays);
    const auto notes = graph_notes(r.recorded.snapshot, r.hooks, r.graph, eager_notes(r));
    // A small program names its blocks otherwise than a capture of it does: as the eager steps say which is which.
    using Said = std::tuple<Bytes, MemoryCategory, MemoryCategory, UnitId>;
    std::set<Said> eager;
    std::size_t at = 0, known = 0, unknown = 0;
    for (const AllocatorRecord& event : r.recorded.run.allocator) {
      if (event.action != AllocatorAction::alloc) continue;
      const BlockRecord& block = r.recorded.run.blocks[event.block.value];
      const auto& note = notes.at(at++);
      if (block.step < 0) continue;
      INFO("alloc " << at - 1 << " of step " << block.step << ", " << block.requested << " bytes");
      if (!note) {
        ++unknown;
        CHECK((block.category == MemoryCategory::workspaces || block.category == MemoryCategory::inputs));
        continue;
      }
      ++known;
      const Said said{block.requested, block.category, note->category, note->unit};
      if (block.step < 2)
        eager.insert(said);
      else
        CHECK(eager.contains(said));
    }
    CHECK(at == notes.size());
    CHECK(unknown < 12);  // the generator's state, workspaces of the capture's stream
    CHECK(known > 10 * unknown);
  }
}

TEST_CASE("a graph captured into a pool of graph_pool_handle() is the same in a recording") {
  const GraphRecording own = record_graph(true);
  Snapshot snapshot = own.recorded.snapshot;
  for (SnapshotSegment& segment : snapshot.segments)
    if (segment.pool_id.first != 0) segment.pool_id = {0, 7};
  const auto hooks = find_hooks(snapshot_ranges(snapshot), own.workload.units);
  REQUIRE(hooks);
  const auto graph = find_graph(snapshot, *hooks);
  REQUIRE(graph);
  CHECK(graph->pools == GraphPoolIds{{0, 7}});
  CHECK(graph->steps == own.graph.steps);
  CHECK(graph->captured == own.graph.captured);
  CHECK(graph->stream == own.graph.stream);
  CHECK(graph->captures == 1);
}

}  // namespace foreshard::traces::test
