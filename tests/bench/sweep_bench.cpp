// Points a second of a sweep, by the number of threads: from the bundled 16-layer Llama capture, and from the preset
// of the same model, whose programs are generated anew for each batch. And what remedies take, by a model's layers.
#include <benchmark/benchmark.h>

#include <stdexcept>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/sweep/remedies.hpp"
#include "sim/sweep/sweep.hpp"
#include "traces/import/import.hpp"
#include "traces/workload_source/workload_source.hpp"

namespace {

using namespace foreshard;

const sim::MachineProfile& machine() {
  static const sim::MachineProfile kMachine = sim::builtin_profile("h200").value();
  return kMachine;
}

const std::vector<Range>& setting_options() {
  static const std::vector<Range> kRanges{{"forward_prefetch", {"implicit", "1", "2", "3"}},
                                          {"reshard_after_forward", {"true", "false"}},
                                          {"all_gather", {"nccl", "copy-engine"}}};
  return kRanges;
}

void run(benchmark::State& state, sim::WorkloadSource& source, const Settings& base, const std::vector<Range>& ranges) {
  std::size_t points = 0;
  for (auto _ : state) {
    auto result = sim::sweep(source, machine(), {base, ranges, {}, static_cast<unsigned>(state.range(0)), {}});
    if (!result) throw std::runtime_error(result.error().text());
    points += result->size();
    benchmark::DoNotOptimize(result->data());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(points));
}

void sweep_from_capture(benchmark::State& state) {
  static const std::shared_ptr<const Workload> kWorkload = [] {
    const std::string base = "traces/samples/l1b_implicit";
    auto imported = traces::import_recording(
        {.snapshot = base + ".pickle.xz", .trace = base + ".trace.json.xz", .about = base + ".about.json"});
    if (!imported) throw std::runtime_error(imported.error().text());
    return std::make_shared<const Workload>(std::move(*imported->workload));
  }();
  sim::OneWorkload source(kWorkload);
  run(state, source, kWorkload->settings, setting_options());
}

void sweep_from_model(benchmark::State& state) {
  static const traces::Source kSource = traces::read_source({"llama-1b"}).value();
  Settings base = kSource.settings;
  base.gpus = 4;
  base.param_dtype = DType::bfloat16;
  base.reduce_dtype = DType::float32;
  std::vector<Range> ranges = setting_options();
  ranges.push_back({"batch", {"1", "2"}});
  const auto workloads = traces::workloads_of(kSource, machine());
  run(state, *workloads, base, ranges);
}

void threads(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("threads")->Unit(benchmark::kMillisecond)->UseRealTime()->MeasureProcessCPUTime();
  const auto most = static_cast<std::int64_t>(sim::hardware_threads());
  for (std::int64_t n = 1; n < most; n *= 2) benchmark->Arg(n);
  benchmark->Arg(most);
}

BENCHMARK(sweep_from_capture)->Apply(threads);
BENCHMARK(sweep_from_model)->Apply(threads);

/// What explain and view simulate for a stored plan of a model: linear in its layers.
void remedies_by_layers(benchmark::State& state) {
  Settings base;
  base.gpus = 8;
  base.batch = 1;
  base.seq = 256;
  base.param_dtype = DType::bfloat16;
  base.reduce_dtype = DType::float32;
  ModelConfig model = preset("llama-1b").value();
  model.layers = static_cast<std::uint32_t>(state.range(0));
  sim::OneWorkload source(
      std::make_shared<const Workload>(generate(model, base, machine().host_calls, machine().gpu()).value()));
  for (auto _ : state) {
    auto found = sim::find_remedies(source, machine(), {.settings = base});
    if (!found) throw std::runtime_error(found.error().text());
    benchmark::DoNotOptimize(found->useful.data());
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(remedies_by_layers)->Arg(64)->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond)->Complexity();

}  // namespace
