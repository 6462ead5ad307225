// Steps whose forward and backward are one CUDA graph: what is issued when, and in which pool memory lies.
#include <algorithm>
#include <set>

#include "core/step/graph_schedule.hpp"
#include "core/step/library_workspaces.hpp"
#include "core/step/step_runner.hpp"
#include "tests/contract/scripted_device.hpp"
#include "tests/core/adapt/small_program.hpp"

namespace foreshard::test {
namespace {

constexpr std::uint32_t kEager = 1;
constexpr std::uint32_t kWarmUp = 2;
constexpr std::int32_t kCapture = kEager + kWarmUp;

struct Graphed {
  StepOutcome steps;
  Run run;
  std::vector<std::string> log;
};

Settings with_graph(Settings settings = four_gpus()) {
  settings.cuda_graph = CudaGraph{kEager, kWarmUp};
  return settings;
}

/// Each op of a pass costs the host 7 ns, each other one 5.
Workload program() {
  Workload w = small_workload(four_gpus(), 3);
  w.has_timing = true;
  for (Program& step : w.steps) {
    const CapturedOps passes = captured_ops(step);
    for (std::size_t i = 0; i < step.ops.size(); ++i)
      step.ops[i].host_before = {i >= passes.begin && i < passes.end ? 7 : 5};
  }
  return w;
}

Graphed run_graphed(const Workload& w, const StepRequest& request = {.steps = kCapture + 3}) {
  ScriptedDevice device;
  ScriptedMemory memory(8 * kGiB);
  Graphed out;
  auto result = run_steps(w, with_graph(), request, device, memory, out.run);
  REQUIRE(result);
  out.steps = std::move(*result);
  out.log = device.take_log();
  return out;
}

/// The calls between the n-th "graph launch" and its end.
std::vector<std::string> launched(const std::vector<std::string>& log, std::size_t n) {
  std::size_t seen = 0;
  for (std::size_t i = 0; i < log.size(); ++i) {
    if (log[i] != "graph launch" || seen++ != n) continue;
    const auto end = std::find(log.begin() + static_cast<std::ptrdiff_t>(i), log.end(), "graph end");
    return {log.begin() + static_cast<std::ptrdiff_t>(i) + 1, end};
  }
  return {};
}

std::size_t ops_in(const std::vector<std::string>& calls) {
  return static_cast<std::size_t>(std::count_if(calls.begin(), calls.end(), [](const std::string& call) {
    return call.starts_with("launch") || call.starts_with("collective") || call.starts_with("copy");
  }));
}

/// Device ops of step `step`.
std::size_t ops_of(const Run& run, std::int32_t step) {
  return static_cast<std::size_t>(
      std::count_if(run.device_ops.begin(), run.device_ops.end(), [&](const DeviceOpRecord& op) {
        const StepRecord& of = run.steps[static_cast<std::size_t>(step)];
        return op.issue >= of.start && op.issue < of.end;
      }));
}

std::vector<const AllocatorRecord*> allocs_of(const Run& run, std::int32_t step) {
  std::vector<const AllocatorRecord*> out;
  for (const AllocatorRecord& event : run.allocator)
    if (event.action == AllocatorAction::alloc && event.block.valid() && run.blocks[event.block.value].step == step)
      out.push_back(&event);
  return out;
}

}  // namespace

TEST_CASE("eager steps, warm-up, capture and replays follow one another") {
  const Settings settings = with_graph();
  const auto phase = [&](std::int32_t step, bool warm = false) { return graph_phase(settings, warm, step); };
  CHECK(phase(-1) == GraphPhase::eager);
  CHECK(phase(0) == GraphPhase::eager);
  CHECK(phase(1) == GraphPhase::warm_up);
  CHECK(phase(2) == GraphPhase::warm_up);
  CHECK(phase(3) == GraphPhase::capture);
  CHECK(phase(4) == GraphPhase::replay);
  CHECK(phase(0, true) == GraphPhase::capture);
  CHECK(phase(1, true) == GraphPhase::replay);
  CHECK(graph_phase(four_gpus(), false, 9) == GraphPhase::eager);
}

TEST_CASE("every launch issues the passes' ops again, with no host work between") {
  const Workload w = program();
  const Graphed graphed = run_graphed(w);
  CHECK(std::count(graphed.log.begin(), graphed.log.end(), "graph launch") == 3);
  const auto first = launched(graphed.log, 0);
  CHECK(ops_in(first) > 0);
  CHECK(ops_in(launched(graphed.log, 1)) == ops_in(first));
  CHECK(ops_in(launched(graphed.log, 2)) == ops_in(first));
  for (const std::string& call : first) CHECK((!call.starts_with("host") || call == "host 2ns"));  // marks
  // What is issued of a step is the same with and without a graph.
  ScriptedDevice device;
  ScriptedMemory memory(8 * kGiB);
  Run eager;
  REQUIRE(run_steps(w, w.settings, {.steps = 4}, device, memory, eager));
  CHECK(ops_of(graphed.run, kCapture + 1) == ops_of(eager, 2));
  // Host work of the passes: in the eager and warm-up steps, and once for the capture.
  const auto inside = [](const Program& step) {
    const CapturedOps passes = captured_ops(step);
    return static_cast<std::ptrdiff_t>(passes.end - passes.begin);
  };
  CHECK(std::count(graphed.log.begin(), graphed.log.end(), "host 7ns") ==
        inside(w.steps.front()) + kCapture * inside(w.steps.back()));
}

TEST_CASE("replays allocate nothing in the passes, and the graph's pool stays what the capture left") {
  const Graphed graphed = run_graphed(program());
  CHECK(graphed.steps.graph_pool.reserved > 0);
  CHECK(graphed.steps.graph_pool.active > 0);  // gradients
  CHECK(graphed.steps.graph_pool.active < graphed.steps.graph_pool.reserved);
  const auto captured = allocs_of(graphed.run, kCapture);
  const auto in_pool = [&](const AllocatorRecord* event) {
    return graphed.run.blocks[event->block.value].pool != kDefaultPool;
  };
  CHECK(std::count_if(captured.begin(), captured.end(), in_pool) > 0);
  for (std::int32_t step : {kCapture + 1, kCapture + 2}) {
    const auto replayed = allocs_of(graphed.run, step);
    CHECK(std::none_of(replayed.begin(), replayed.end(), in_pool));
    for (const AllocatorRecord* event : replayed) {
      const MemoryCategory of = graphed.run.blocks[event->block.value].category;
      const bool of_optimizer = of == MemoryCategory::optimizer_temporaries || of == MemoryCategory::optimizer_state;
      CHECK(of_optimizer);
    }
  }
  const auto& steps = graphed.steps.steps;
  CHECK(steps[kCapture + 1].peaks == steps[kCapture + 2].peaks);
}

TEST_CASE("gradients that are kept lie in the default pool, and the graph adds to them") {
  const Workload w = program();
  Settings settings = with_graph();
  settings.set_to_none = false;
  ScriptedDevice device;
  ScriptedMemory memory(8 * kGiB);
  Run run;
  const auto steps = run_steps(w, settings, {.steps = kCapture + 3}, device, memory, run);
  REQUIRE(steps);
  std::size_t kept = 0;
  std::set<std::uint32_t> freed;
  for (const AllocatorRecord& event : run.allocator)
    if (event.action == AllocatorAction::free_requested && event.block.valid()) freed.insert(event.block.value);
  for (std::uint32_t i = 0; i < run.blocks.size(); ++i) {
    const BlockRecord& block = run.blocks[i];
    if (block.category != MemoryCategory::sharded_gradients || freed.contains(i)) continue;
    ++kept;
    CHECK(block.pool == kDefaultPool);
    CHECK(block.step == 0);
  }
  CHECK(kept > 0);
  CHECK(steps->graph_pool.active < run_graphed(w).steps.graph_pool.active);
  CHECK(steps->steps[kCapture + 1].peaks == steps->steps[kCapture + 2].peaks);
}

TEST_CASE("warm-up and capture allocate on a stream of their own, the replays' optimizer on the current one") {
  const Graphed graphed = run_graphed(program());
  const auto capture = std::find_if(graphed.run.streams.begin(), graphed.run.streams.end(),
                                    [](const StreamRecord& stream) { return stream.name == "graph capture"; });
  REQUIRE(capture != graphed.run.streams.end());
  const auto on = [&](std::int32_t step, StreamId stream) {
    const auto allocs = allocs_of(graphed.run, step);
    return std::count_if(allocs.begin(), allocs.end(),
                         [&](const AllocatorRecord* event) { return event->stream == stream; });
  };
  CHECK(on(0, capture->id) == 0);
  CHECK(on(kEager, capture->id) > 0);
  const auto passes = allocs_of(graphed.run, kEager);
  CHECK(std::none_of(passes.begin(), passes.end(), [&](const AllocatorRecord* event) {
    return event->stream == kComputeStream && graphed.run.blocks[event->block.value].category != MemoryCategory::inputs;
  }));
  CHECK(on(kCapture, capture->id) > 0);
  CHECK(on(kCapture + 1, capture->id) == 0);
  for (const DeviceOpRecord& op : graphed.run.device_ops) CHECK(op.stream != capture->id);
}

TEST_CASE("cached memory is given back before the capture, whose generator keeps two small blocks") {
  const Graphed graphed = run_graphed(program());
  std::size_t freed = 0;
  for (const AllocatorRecord& event : graphed.run.allocator) freed += event.action == AllocatorAction::segment_free;
  CHECK(freed > 0);
  const auto captured = allocs_of(graphed.run, kCapture);
  const auto state = [&](const AllocatorRecord* event) {
    const BlockRecord& block = graphed.run.blocks[event->block.value];
    return block.requested == 8 && block.pool == kDefaultPool && block.category == MemoryCategory::workspaces;
  };
  CHECK(std::count_if(captured.begin(), captured.end(), state) == 2);
}

TEST_CASE("a run that begins warm begins with the capture, whose host time is nobody's") {
  const Workload w = program();
  const Graphed graphed = run_graphed(w, {.steps = 4, .setup = false, .warm = true});
  CHECK(std::count(graphed.log.begin(), graphed.log.end(), "graph launch") == 4);
  CHECK(std::count(graphed.log.begin(), graphed.log.end(), "host 7ns") == 0);
}

TEST_CASE("a second stream makes the workspaces of the first step's passes anew, at their places") {
  Program first;
  const auto alloc = [&](MemoryCategory category, Bytes bytes) {
    Op op;
    op.kind = OpKind::alloc;
    op.category = category;
    op.size.bytes = bytes;
    first.ops.push_back(op);
  };
  const auto hook = [&](Hook at) {
    Op op;
    op.kind = OpKind::hook;
    op.hook = at;
    first.ops.push_back(op);
  };
  alloc(MemoryCategory::workspaces, 1);  // before the passes: not of theirs
  hook(Hook::forward_begin);
  alloc(MemoryCategory::activations, 2);
  alloc(MemoryCategory::workspaces, 3);
  hook(Hook::forward_end);
  hook(Hook::backward_begin);
  alloc(MemoryCategory::temporaries, 4);
  alloc(MemoryCategory::temporaries, 4);
  alloc(MemoryCategory::workspaces, 5);
  hook(Hook::backward_end);
  alloc(MemoryCategory::workspaces, 6);
  const auto found = library_workspaces(first);
  REQUIRE(found.size() == 2);
  CHECK((found[0].phase == Hook::forward_begin && found[0].allocs_before == 1 && found[0].bytes == 3));
  CHECK((found[1].phase == Hook::backward_begin && found[1].allocs_before == 2 && found[1].bytes == 5));
}

TEST_CASE("before the passes a replay works, waits and frees as an eager step does") {
  Workload w = program();
  const TensorId kept{5000};
  for (Program& step : w.steps) {
    Op made;  // behind the passes, until the next step's begin
    made.kind = OpKind::alloc;
    made.tensor = kept;
    made.size.bytes = 64 * kMiB;
    Op freed;
    freed.kind = OpKind::free;
    freed.tensor = kept;
    freed.steps_ago = 1;
    freed.host_before = {11};
    Op waits;
    waits.kind = OpKind::synchronize;
    waits.host_before = {13};
    step.ops.insert(step.ops.begin(), {freed, waits});
    step.ops.push_back(made);
  }
  constexpr std::int32_t kSteps = kCapture + 9;
  const Graphed graphed = run_graphed(w, {.steps = kSteps});
  CHECK(std::count(graphed.log.begin(), graphed.log.end(), "host 11ns") == kSteps);
  CHECK(std::count(graphed.log.begin(), graphed.log.end(), "host 13ns") == kSteps);
  const auto& steps = graphed.steps.steps;
  CHECK(steps[kCapture + 1].peaks == steps[kCapture + 8].peaks);
}

TEST_CASE("workspaces of a phase with fewer allocs than the first step's are made at its end") {
  Workload w = program();
  const auto workspaces_on_capture = [](const Graphed& graphed) {
    return std::count_if(graphed.run.blocks.begin(), graphed.run.blocks.end(), [](const BlockRecord& block) {
      return block.step == static_cast<std::int32_t>(kEager) && block.category == MemoryCategory::workspaces &&
             block.requested == 3 * kMiB;
    });
  };
  for (const Hook behind : {Hook::forward_end, Hook::backward_end}) {
    Op made;
    made.kind = OpKind::alloc;
    made.tensor = TensorId{6000 + static_cast<std::uint32_t>(behind)};
    made.category = MemoryCategory::workspaces;
    made.size.bytes = 3 * kMiB;
    auto& ops = w.steps.front().ops;
    const auto at = std::find_if(ops.begin(), ops.end(),
                                 [&](const Op& op) { return op.kind == OpKind::hook && op.hook == behind; });
    REQUIRE(at != ops.end());
    ops.insert(at, made);
  }
  CHECK(workspaces_on_capture(run_graphed(w)) == 2);
}

TEST_CASE("a device that launches no graphs says so") {
  ScriptedDevice device;
  device.launch_graphs(false);
  ScriptedMemory memory(8 * kGiB);
  Run run;
  const Workload w = program();
  const auto refused = run_steps(w, with_graph(), {}, device, memory, run);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::usage);
}

}  // namespace foreshard::test
