// Plans of steps whose passes are one CUDA graph: what they leave out, and what they keep.
#include "sim/predict/cuda_graph.hpp"

#include <algorithm>
#include <numeric>

#include "core/models/generate.hpp"
#include "core/run/op_dependencies.hpp"
#include "core/run/steady_step.hpp"
#include "core/timeline/places.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/property/timed_workload.hpp"

namespace foreshard::sim {
namespace {

Settings base() {
  Settings settings;
  settings.gpus = 4;
  settings.param_dtype = DType::bfloat16;
  settings.reduce_dtype = DType::float32;
  return settings;
}

MachineProfile machine() {
  return *builtin_profile("h200");
}

Workload late_host(std::int64_t ns) {
  Workload workload = foreshard::test::timed_workload(base(), 4);
  for (Program& step : workload.steps)
    for (Op& op : step.ops) op.host_before = {ns};
  return workload;
}

Prediction plan(const Workload& workload, std::optional<CudaGraph> graph) {
  Settings settings = base();
  settings.cuda_graph = graph;
  auto p = predict(workload, machine(), {settings, {}});
  REQUIRE(p);
  return std::move(*p);
}

/// Waits on other streams' ops, of the ops of the step that is reported.
std::size_t waits_of(const Run& run) {
  const StepRecord* step = timed_step(run);
  REQUIRE(step != nullptr);
  std::vector<std::size_t> ops(run.device_ops.size()), events(run.events.size());
  std::iota(ops.begin(), ops.end(), std::size_t{0});
  std::iota(events.begin(), events.end(), std::size_t{0});
  std::size_t count = 0;
  for (const OpDependencies& d : op_dependencies(run, std::move(ops), std::move(events)))
    if (run.device_ops[d.op].issue >= step->start && run.device_ops[d.op].issue < step->end) count += d.events.size();
  return count;
}

}  // namespace

TEST_CASE("a graph takes the host's work out of the passes, and leaves it outside", "[cuda_graph]") {
  const Workload workload = late_host(100'000);
  const Prediction eager = plan(workload, std::nullopt);
  const Prediction graphed = plan(workload, CudaGraph{});
  REQUIRE(eager.host_bound);
  CHECK(graphed.step_ms < eager.step_ms);
  CHECK(graphed.host_ms < eager.host_ms);
  CHECK(graphed.step_ms >= graphed.gpu_step_ms * 0.999);
}

TEST_CASE("the edges of a replayed graph are those of the eager step", "[cuda_graph]") {
  const Workload workload = late_host(2'000);
  const Run eager = plan(workload, std::nullopt).run;
  const Run graphed = plan(workload, CudaGraph{1, 2}).run;
  CHECK(waits_of(eager) > 10);
  CHECK(waits_of(graphed) == waits_of(eager));
}

TEST_CASE("kernels of a replay belong to the phases and units that they have in an eager step", "[cuda_graph]") {
  const Workload workload = late_host(2'000);
  const auto places = [&](std::optional<CudaGraph> graph) {
    const Run run = plan(workload, graph).run;
    const Places where(run, Recording::run, unit_marks(run, Recording::run));
    const StepRecord* step = timed_step(run);
    std::vector<std::string> out;
    for (const DeviceOpRecord& op : run.device_ops)
      if (op.issue >= step->start && op.issue < step->end) out.push_back(where.phase(op) + " " + where.unit(op));
    return out;
  };
  const auto eager = places({});
  CHECK(std::count(eager.begin(), eager.end(), "forward layers.1") > 0);
  CHECK(places(CudaGraph{1, 1}) == eager);
}

TEST_CASE("how many steps come before the capture changes neither times nor the graph's pool", "[cuda_graph]") {
  const Workload workload = late_host(2'000);
  const Prediction one = plan(workload, CudaGraph{0, 1});
  const Prediction many = plan(workload, CudaGraph{4, 3});
  CHECK(one.step_ms == many.step_ms);
  CHECK(one.graph_pool == many.graph_pool);
  CHECK(one.graph_pool.reserved > one.graph_pool.active);
  CHECK(one.peaks.reserved >= one.graph_pool.reserved);
}

TEST_CASE("what cannot be captured is refused with its reason, and a wait of the host is left out", "[cuda_graph]") {
  Settings settings = base();
  settings.cuda_graph = CudaGraph{};
  const Workload plain = late_host(1'000);
  CHECK(not_capturable(plain, settings).empty());
  Workload waits = plain;
  for (Program& step : waits.steps) {
    Op wait;
    wait.kind = OpKind::synchronize;
    const auto end = std::find_if(step.ops.begin(), step.ops.end(),
                                  [](const Op& op) { return op.kind == OpKind::hook && op.hook == Hook::forward_end; });
    step.ops.insert(end, wait);
  }
  CHECK_FALSE(waits_in_passes(plain));
  const auto left_out = predict(waits, machine(), {settings, {}});
  REQUIRE(left_out);
  CHECK(left_out->step_ms == predict(plain, machine(), {settings, {}})->step_ms);
  REQUIRE(left_out->not_valid.size() == 1);
  CHECK(left_out->not_valid.front().find("the host waits for the GPU in forward or backward") != std::string::npos);
  Workload evaluates = plain;
  for (Program& step : evaluates.steps)
    std::erase_if(step.ops, [](const Op& op) { return op.kind == OpKind::hook && op.hook == Hook::backward_end; });
  CHECK(not_capturable(evaluates, settings).find("backward") != std::string::npos);
  Settings records = settings;
  records.release = Release::record_stream;
  CHECK_FALSE(not_capturable(plain, records).empty());
  Workload own = plain;
  own.lowering = Lowering::foreshard;
  CHECK(not_capturable(own, settings).empty());
}

TEST_CASE("our own collectives in a graph are another form than the one that is priced: no such plan is valid",
          "[cuda_graph]") {
  Settings settings = base();
  settings.gpus = 2;
  settings.reduce_scatter = Transport::pull_reduce;
  const Workload workload = foreshard::test::timed_workload(settings, 4);
  const auto said = [&] {
    const auto p = predict(workload, machine(), {settings, {}});
    REQUIRE(p);
    return std::any_of(p->not_valid.begin(), p->not_valid.end(), [](const std::string& why) {
      return why.find("cuda_graph: foreshard's own collectives") != std::string::npos;
    });
  };
  CHECK_FALSE(said());
  settings.cuda_graph = CudaGraph{};
  CHECK(said());
  settings.reduce_scatter = Transport::nccl;
  CHECK_FALSE(said());
}

TEST_CASE("foreshard's own program makes the data of one microbatch before the passes, of more inside",
          "[cuda_graph]") {
  ModelConfig model;
  model.name = "mlp";
  model.family = ModelFamily::mlp;
  model.dim = model.ffn = 16;
  model.layers = 2;
  model.default_batch = 2;
  for (const std::uint32_t microbatches : {1U, 2U}) {
    Settings settings = base();
    settings.cuda_graph = CudaGraph{};
    settings.accumulate = microbatches;
    auto workload = generate(model, settings, HostCosts{}, 132, true);
    REQUIRE(workload);
    CHECK(not_capturable(*workload, settings).empty());  // PyTorch's copies come from the host's static tensors
    workload->lowering = Lowering::foreshard;
    CHECK(not_capturable(*workload, settings).empty() == (microbatches == 1));
  }
}

}  // namespace foreshard::sim
