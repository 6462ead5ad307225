#include "cli/verbs/drawn_memory.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/verbs/forecast_process.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/settings_changes.hpp"
#include "sim/parallel/for_each.hpp"

namespace foreshard::cli {
namespace {

constexpr std::size_t kSteps = 300;  // as many as the recordings have that forecast was held against
constexpr std::uint64_t kProcesses = 4;
constexpr const char* kExpandable = "expandable_segments:True";

struct DrawnJob {
  const Planned& planned;
  const sim::Lengths& lengths;
  std::uint64_t seed = 0;
};

Result<sim::DrawnMemory> memory_at(const DrawnJob& job, sim::WorkloadSource& workloads, const Settings& settings,
                                   Progress& progress) {
  const auto workload = workloads.at(settings);
  FORESHARD_TRY(workload);
  const auto programs = sim::model_programs(workloads, settings);
  auto process = forecast_process(job.planned, settings, **workload);
  FORESHARD_TRY(process);
  sim::ForecastRequest request{job.lengths, kSteps, {}, std::move(*process), sim::hardware_threads()};
  for (std::uint64_t i = 0; i < kProcesses; ++i) request.seeds.push_back(job.seed + i);
  request.on_progress = [&](std::size_t done, std::size_t all) { progress.at(done, all); };
  const auto seeds = sim::run_forecast(*programs, request);
  FORESHARD_TRY(seeds);
  sim::DrawnMemory out{.steps = kSteps, .processes = seeds->size(), .seed = job.seed};
  out.least = seeds->front().peak_reserved();
  for (const sim::SeedForecast& one : *seeds) {
    out.least = std::min(out.least, one.peak_reserved());
    out.most = std::max(out.most, one.peak_reserved());
    out.num_alloc_retries += one.num_alloc_retries();
    if (one.out_of_memory) ++out.out_of_memory;
  }
  return out;
}

}  // namespace

Result<sim::DrawnMemory> drawn_memory(const Planned& planned, const sim::Lengths& lengths, std::uint64_t seed,
                                      Console& console) {
  const auto workloads = traces::workloads_of(planned.source, planned.machine);
  Progress progress(console, "steps of lengths that vary");
  return memory_at({planned, lengths, seed}, *workloads, planned.settings, progress);
}

std::optional<sim::DrawnFit> drawn_fit(const Planned& planned, const sim::Lengths& lengths, std::uint64_t seed,
                                       Console& console) {
  const auto workloads = traces::workloads_of(planned.source, planned.machine);
  Progress progress(console, "simulating what would fit");
  std::vector<sim::Candidate> changes = sim::settings_changes(planned.settings);
  if (planned.settings.alloc_conf.empty()) {
    Settings expandable = planned.settings;
    expandable.alloc_conf = kExpandable;
    changes.insert(changes.begin(), {expandable, std::string("--alloc-conf ") + kExpandable, {}, {}, {}});
  }
  for (const sim::Candidate& change : changes) {
    const auto memory = memory_at({planned, lengths, seed}, *workloads, change.settings, progress);
    if (memory && memory->out_of_memory == 0) return sim::DrawnFit{change.setting, memory->most};
  }
  return std::nullopt;
}

}  // namespace foreshard::cli
