// What rewriting a recording takes, by the number of microbatches and by that of blocks: linear in either. Google
// Benchmark fits the growth (BigO).
#include <benchmark/benchmark.h>

#include <stdexcept>

#include "core/adapt/adapt.hpp"
#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/machine/profile.hpp"

namespace {

using namespace foreshard;

Workload llama(std::uint32_t layers) {
  static const sim::MachineProfile kMachine = sim::builtin_profile("h200").value();
  Settings settings;
  settings.gpus = 8;
  settings.batch = 1;
  settings.seq = 1024;
  settings.param_dtype = DType::bfloat16;
  settings.reduce_dtype = DType::float32;
  ModelConfig model = preset("llama-1b").value();
  model.layers = layers;
  return generate(model, settings, kMachine.host_calls, kMachine.gpu()).value();
}

void rewrite(benchmark::State& state, const Workload& workload, std::uint32_t microbatches) {
  for (auto _ : state) {
    Workload rewritten = workload;
    if (!set_microbatches(rewritten, 1, microbatches) || !checkpoint_blocks(rewritten))
      throw std::runtime_error("the program cannot be rewritten");
    benchmark::DoNotOptimize(rewritten.steps.back().ops.size());
  }
  state.SetComplexityN(state.range(0));
}

void checkpoint_by_microbatches(benchmark::State& state) {
  static const Workload kWorkload = llama(16);
  rewrite(state, kWorkload, static_cast<std::uint32_t>(state.range(0)));
}
BENCHMARK(checkpoint_by_microbatches)->RangeMultiplier(4)->Range(1, 64)->Unit(benchmark::kMillisecond)->Complexity();

void checkpoint_by_layers(benchmark::State& state) {
  rewrite(state, llama(static_cast<std::uint32_t>(state.range(0))), 2);
}
BENCHMARK(checkpoint_by_layers)->RangeMultiplier(4)->Range(16, 1024)->Unit(benchmark::kMillisecond)->Complexity();

}  // namespace
