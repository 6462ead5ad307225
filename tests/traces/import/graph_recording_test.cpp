// A CUDA graph in a recording, end to end: a run with a graph becomes a snapshot, and import's view of it is held
// against what the run itself knows of every block.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>

#include "core/compare/compare.hpp"
#include "core/compare/replayed_phases.hpp"
#include "core/compare/run_totals.hpp"
#include "core/run/graph_replay.hpp"
#include "core/settings/settings.hpp"
#include "tests/catch.hpp"
#include "tests/core/adapt/small_program.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/capture/memory/recording.hpp"
#include "traces/capture/capture.hpp"
#include "traces/import/graph_notes.hpp"
#include "traces/import/import.hpp"
#include "traces/import/recorded_steps.hpp"
#include "traces/import/snapshot_ranges.hpp"
#include "traces/pytorch/about.hpp"

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

/// As torch.cuda.memory._dump_snapshot() has it, but as JSON.
std::string json_of(const Snapshot& snapshot) {
  using Json = nlohmann::json;
  Json out{{"segments", Json::array()}, {"device_traces", Json::array({Json::array()})}};
  for (const SnapshotSegment& segment : snapshot.segments) {
    Json one{{"address", segment.address},
             {"total_size", segment.total_size},
             {"allocated_size", segment.allocated_size},
             {"active_size", segment.active_size},
             {"requested_size", segment.requested_size},
             {"stream", segment.stream},
             {"segment_type", segment.small_pool ? "small" : "large"},
             {"segment_pool_id", {segment.pool_id.first, segment.pool_id.second}},
             {"blocks", Json::array()}};
    for (const SnapshotBlock& block : segment.blocks)
      one["blocks"].push_back({{"address", block.address},
                               {"size", block.size},
                               {"requested_size", block.requested_size},
                               {"state", block.state == BlockState::live ? "active_allocated" : "inactive"}});
    out["segments"].push_back(std::move(one));
  }
  for (const AllocatorEvent& event : snapshot.events)
    out["device_traces"][0].push_back({{"action", kAllocatorActionNames[static_cast<std::size_t>(event.action)]},
                                       {"addr", event.address},
                                       {"size", event.size},
                                       {"stream", event.stream},
                                       {"time_us", event.time_us}});
  for (const SnapshotAnnotation& a : snapshot.annotations)
    out["external_annotations"].push_back(
        {{"stage", a.start ? "START" : "END"}, {"name", a.name}, {"device", 0}, {"time_us", a.time_us}});
  return out.dump();
}

std::string about_of(const Workload& workload) {
  About about;
  about.torch = "2.11.0";
  about.sm_count = 132;
  about.settings = workload.settings;
  about.settings.cuda_graph.reset();
  about.units = workload.units;
  return about_json(about);
}

}  // namespace

TEST_CASE("an import of a recorded graph reports a replay, whose blocks have categories") {
  const GraphRecording r = record_graph(true);
  const foreshard::test::TemporaryFolder folder;
  const auto imported = import_recording({.snapshot = folder.write("graph.json", json_of(r.recorded.snapshot)),
                                          .trace = {},
                                          .about = folder.write("graph.about.json", about_of(r.workload))});
  INFO((imported ? "" : imported.error().text()));
  REQUIRE(imported);
  const Run& run = imported->run;
  CHECK(imported->workload.has_value());
  CHECK(run.settings.cuda_graph == CudaGraph{2, 2});
  CHECK(graph_pool_bytes(run) > 0);
  const auto last = memory_step(run);
  REQUIRE(last);
  CHECK(last->index == 4 + kReplays);
  CHECK(last->peaks.allocated > 0);
  const auto phases = phases_ms(run);
  REQUIRE(phases.size() == 2);
  CHECK(phases[0].first == kGraphReplay);
  CHECK(phases[1].first == "optimizer");
  // Beside an eager recording, whose passes are then one phase as well.
  Run eager = r.recorded.run;
  CHECK(as_replayed(eager, {}, run, {}).has_value());
  // At its peak a replay has what an eager step has kept, and the capture stream's workspaces beside the first ones.
  const auto comparison = compare_runs(run, run, {.step_a = 1, .step_b = last->index});
  REQUIRE(comparison);
  const auto category = [&](std::string_view name) {
    const auto row = std::find_if(comparison->categories.begin(), comparison->categories.end(),
                                  [&](const MemoryRow& of) { return of.name == name; });
    INFO(name);
    REQUIRE(row != comparison->categories.end());
    return *row;
  };
  CHECK(category("other").b == 1024);  // the generator's state
  CHECK(category("workspaces").b == 2 * category("workspaces").a);
  for (const char* same : {"optimizer_state", "parameters"}) CHECK(category(same).a == category(same).b);
}

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
    CHECK(unknown == 2);  // the generator's state
    CHECK(known > 100 * unknown);
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
