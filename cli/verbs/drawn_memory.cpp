#include "cli/verbs/drawn_memory.hpp"

#include <algorithm>
#include <memory>

#include "core/allocator/config.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/process_memory_options.hpp"

namespace foreshard::cli {
namespace {

constexpr std::size_t kSteps = 300;  // as many as the recordings have that forecast was held against
constexpr std::uint64_t kProcesses = 4;

}  // namespace

Result<sim::ForecastProcess> forecast_process(const Planned& planned, const Workload& workload) {
  const auto config = parse_alloc_conf(planned.settings.alloc_conf, planned.settings.pytorch);
  FORESHARD_TRY(config);
  sim::ForecastProcess process;
  process.options.config = *config;
  process.options.memory =
      sim::process_memory_options(workload, planned.settings, planned.machine, planned.memory_limit, true).memory;
  process.options.limit = planned.memory_limit;
  process.options.as_recorded =
      workload.lowering == Lowering::pytorch && planned.settings.alloc_conf == planned.source.settings.alloc_conf;
  return process;
}

Result<sim::DrawnMemory> drawn_memory(const Planned& planned, const sim::Lengths& lengths, std::uint64_t seed,
                                      Console& console) {
  const auto workloads = traces::workloads_of(planned.source, planned.machine);
  const auto programs = sim::model_programs(*workloads, planned.settings);
  auto process = forecast_process(planned, *planned.workload);
  FORESHARD_TRY(process);
  sim::ForecastRequest request{lengths, kSteps, {}, std::move(*process), sim::hardware_threads()};
  for (std::uint64_t i = 0; i < kProcesses; ++i) request.seeds.push_back(seed + i);
  Progress progress(console, "steps of lengths that vary");
  request.on_progress = [&](std::size_t done, std::size_t all) { progress.at(done, all); };
  const auto seeds = sim::run_forecast(*programs, request);
  FORESHARD_TRY(seeds);
  sim::DrawnMemory out{.steps = kSteps, .processes = seeds->size(), .seed = seed};
  out.least = seeds->front().peak_reserved();
  for (const sim::SeedForecast& one : *seeds) {
    out.least = std::min(out.least, one.peak_reserved());
    out.most = std::max(out.most, one.peak_reserved());
    out.num_alloc_retries += one.num_alloc_retries();
    if (one.out_of_memory) ++out.out_of_memory;
  }
  return out;
}

}  // namespace foreshard::cli
