// Simulated training steps a second at full fidelity on one core: schedule, caching allocator, device and
// record, from the bundled 16-layer Llama capture and of an 8B model; what generating that model's program and what a
// whole prediction takes, calibration included.
#include <benchmark/benchmark.h>

#include <stdexcept>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/simulate.hpp"
#include "traces/import/import.hpp"

namespace {

using namespace foreshard;

const Workload& workload() {
  static const Workload kWorkload = [] {
    const std::string base = "traces/samples/l1b_implicit";
    traces::ImportRequest request;
    request.snapshot = base + ".pickle.xz";
    request.trace = base + ".trace.json.xz";
    request.about = base + ".about.json";
    auto imported = traces::import_recording(request);
    if (!imported) throw std::runtime_error(imported.error().text());
    return std::move(*imported->workload);
  }();
  return kWorkload;
}

const sim::MachineProfile& machine() {
  static const sim::MachineProfile kMachine = sim::builtin_profile("h200").value();
  return kMachine;
}

void simulated_steps(benchmark::State& state) {
  const bool record = state.range(0) != 0;
  constexpr std::int32_t kSteps = 20;
  for (auto _ : state) {
    Run run;
    sim::SimulationRequest request;
    request.steps = {.steps = kSteps, .record = record};
    auto result = sim::simulate(workload(), workload().settings, machine(), request, run);
    benchmark::DoNotOptimize(result->outcome.ops);
  }
  state.SetItemsProcessed(state.iterations() * kSteps);
}
BENCHMARK(simulated_steps)->ArgName("recorded")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

Settings eight_gpus() {
  Settings settings;
  settings.gpus = 8;
  settings.batch = 1;
  settings.seq = 8192;
  settings.param_dtype = DType::bfloat16;
  settings.reduce_dtype = DType::float32;
  return settings;
}

Workload llama_8b() {
  return generate(preset("llama3-8b").value(), eight_gpus(), machine().host_calls, machine().gpu()).value();
}

void generate_8b(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(llama_8b().steps.size());
}
BENCHMARK(generate_8b)->Unit(benchmark::kMillisecond);

void simulated_steps_8b(benchmark::State& state) {
  const bool record = state.range(0) != 0;
  constexpr std::int32_t kSteps = 20;
  const Workload model = llama_8b();
  for (auto _ : state) {
    Run run;
    sim::SimulationRequest request;
    request.steps = {.steps = kSteps, .record = record};
    auto result = sim::simulate(model, model.settings, machine(), request, run);
    benchmark::DoNotOptimize(result->outcome.ops);
  }
  state.SetItemsProcessed(state.iterations() * kSteps);
}
BENCHMARK(simulated_steps_8b)->ArgName("recorded")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void whole_prediction(benchmark::State& state) {
  Settings settings = workload().settings;
  settings.forward_prefetch = 2;
  for (auto _ : state) {
    auto prediction = sim::predict(workload(), machine(), {settings, {}, 4});
    benchmark::DoNotOptimize(prediction->step_ms);
  }
}
BENCHMARK(whole_prediction)->Unit(benchmark::kMillisecond);

}  // namespace
