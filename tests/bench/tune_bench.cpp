// Points a second of a search beside those of a sweep, in one run, by model and number of threads: what `tune` tries of
// a class after its first point is the step alone, while `sweep` predicts every point whole.
#include <benchmark/benchmark.h>

#include <stdexcept>

#include "core/models/presets.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/tune/tune.hpp"
#include "traces/workload_source/workload_source.hpp"

namespace {

using namespace foreshard;

constexpr const char* kModels[] = {"llama-1b", "llama3-8b", "llama3-70b"};

const sim::MachineProfile& machine() {
  static const sim::MachineProfile kMachine = sim::builtin_profile("h200").value();
  return kMachine;
}

Settings settings_of(const traces::Source& source) {
  Settings settings = source.settings;
  settings.gpus = 8;
  settings.nodes = source.name == "llama3-70b" ? 8 : 1;
  settings.batch = 1;
  settings.param_dtype = DType::bfloat16;
  settings.reduce_dtype = DType::float32;
  return settings;
}

template <class Points>
void run(benchmark::State& state, Points points_of) {
  const char* model = kModels[state.range(0)];
  const traces::Source source = traces::read_source({model}).value();
  const auto workloads = traces::workloads_of(source, machine());
  std::size_t points = 0;
  for (auto _ : state) points += points_of(*workloads, settings_of(source), static_cast<unsigned>(state.range(1)));
  state.SetItemsProcessed(static_cast<std::int64_t>(points));
  state.SetLabel(model);
}

void sweep_usual_ranges(benchmark::State& state) {
  run(state, [](sim::WorkloadSource& source, const Settings& base, unsigned threads) {
    auto points = sim::sweep(source, machine(), {base, usual_ranges(), {}, threads});
    if (!points) throw std::runtime_error(points.error().text());
    return points->size();
  });
}

void tune_300_points(benchmark::State& state) {
  run(state, [](sim::WorkloadSource& source, const Settings& base, unsigned threads) {
    sim::TuneRequest request;
    request.start = base;
    request.points = 300;
    request.threads = threads;
    auto result = sim::tune(source, machine(), request);
    if (!result) throw std::runtime_error(result.error().text());
    return result->tried;
  });
}

/// Until nothing helps.
void tune_whole_search(benchmark::State& state) {
  run(state, [](sim::WorkloadSource& source, const Settings& base, unsigned threads) {
    sim::TuneRequest request;
    request.start = base;
    request.threads = threads;
    auto result = sim::tune(source, machine(), request);
    if (!result) throw std::runtime_error(result.error().text());
    return result->tried;
  });
}

void models(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"model", "threads"})->Unit(benchmark::kMillisecond)->UseRealTime()->MeasureProcessCPUTime();
  for (std::int64_t model = 0; model < static_cast<std::int64_t>(std::size(kModels)); ++model)
    for (const std::int64_t threads : {std::int64_t{1}, static_cast<std::int64_t>(sim::hardware_threads())})
      benchmark->Args({model, threads});
}

BENCHMARK(sweep_usual_ranges)->Apply(models);
BENCHMARK(tune_300_points)->Apply(models);
BENCHMARK(tune_whole_search)->Apply(models)->Iterations(1);

/// One point of a search: a simulation, the workload being there.
void one_step_alone(benchmark::State& state) {
  run(state, [](sim::WorkloadSource& source, const Settings& base, unsigned) {
    const sim::PointRequest request{{}, {}, true};
    benchmark::DoNotOptimize(sim::simulate_point(source, machine(), request, base));
    return std::size_t{1};
  });
}
BENCHMARK(one_step_alone)
    ->ArgNames({"model", "threads"})
    ->Args({0, 1})
    ->Args({1, 1})
    ->Args({2, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace
