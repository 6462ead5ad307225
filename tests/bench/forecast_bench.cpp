// Steps a second of a forecast, on one thread: the allocator's programs of llama-8b at 29 lengths, which are made once
// before. And what making one takes.
#include <benchmark/benchmark.h>

#include <stdexcept>

#include "sim/forecast/forecast.hpp"
#include "sim/predict/process_memory_options.hpp"
#include "tests/sim/forecast/generated_model.hpp"

namespace {

using namespace foreshard;

const sim::MachineProfile& machine() {
  static const sim::MachineProfile kMachine = sim::builtin_profile("h200").value();
  return kMachine;
}

Settings settings() {
  Settings out;
  out.gpus = 8;
  out.batch = 1;
  out.seq = 2048;
  out.param_dtype = DType::bfloat16;
  return out;
}

sim::ForecastRequest request(std::size_t steps) {
  sim::ForecastRequest out{sim::parse_distribution("lognormal:704,0.55,256..2048").value().padded(64), steps, {1}, {}};
  out.process.options.config = parse_alloc_conf("").value();
  out.process.options.memory = sim::memory_options(machine());
  return out;
}

void forecast_steps(benchmark::State& state) {
  sim::test::GeneratedModel source("llama-8b", machine());
  const auto programs = sim::model_programs(source, settings());
  const sim::ForecastRequest wanted = request(1000);
  if (!programs->prepare(wanted.lengths.distinct(1, wanted.steps), 1)) throw std::runtime_error("no programs");
  std::size_t steps = 0;
  for (auto _ : state) {
    const auto seeds = sim::run_forecast(*programs, wanted);
    if (!seeds) throw std::runtime_error(seeds.error().text());
    steps += seeds->front().steps.size();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(steps));
}

void derive_a_length(benchmark::State& state) {
  sim::test::GeneratedModel source("llama-8b", machine());
  std::uint32_t length = 64;
  const auto programs = sim::model_programs(source, settings());
  for (auto _ : state)
    if (!programs->prepare({length++}, 1)) throw std::runtime_error("no program");
}

BENCHMARK(forecast_steps)->Unit(benchmark::kMillisecond);
BENCHMARK(derive_a_length)->Unit(benchmark::kMillisecond);

}  // namespace
