#include "cli/verbs/drawn_memory.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "cli/verbs/forecast_process.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/longest_alone.hpp"
#include "sim/forecast/seeds_outcome.hpp"
#include "sim/forecast/settings_changes.hpp"
#include "sim/parallel/for_each.hpp"

namespace foreshard::cli {
namespace {

constexpr std::size_t kSteps = 300;  // as many as the recordings have that forecast was held against
constexpr std::uint64_t kProcesses = 4;
constexpr const char* kExpandable = "expandable_segments:True";

Result<std::vector<sim::SeedForecast>> processes_at(const DrawnJob& job, sim::WorkloadSource& workloads,
                                                    const Settings& settings, sim::ForecastRequest request) {
  const auto workload = workloads.at(settings);
  FORESHARD_TRY(workload);
  const auto programs = sim::model_programs(workloads, settings);
  auto process = forecast_process(job.planned, settings, **workload);
  FORESHARD_TRY(process);
  request.process = std::move(*process);
  request.threads = sim::hardware_threads();
  return sim::run_forecast(*programs, request);
}

Result<sim::DrawnMemory> memory_at(const DrawnJob& job, sim::WorkloadSource& workloads, const Settings& settings,
                                   Progress& progress) {
  sim::ForecastRequest request;
  request.lengths = job.lengths;
  request.steps = kSteps;
  request.seeds.clear();
  for (std::uint64_t i = 0; i < kProcesses; ++i) request.seeds.push_back(job.seed + i);
  request.on_progress = [&](std::size_t done, std::size_t all) { progress.at(done, all); };
  const auto seeds = processes_at(job, workloads, settings, std::move(request));
  FORESHARD_TRY(seeds);
  const sim::SeedsOutcome all = sim::outcome_of(*seeds);
  sim::DrawnMemory out{.steps = kSteps, .processes = all.seeds, .seed = job.seed};
  out.least = seeds->front().peak_reserved();
  for (const sim::SeedForecast& one : *seeds) {
    out.least = std::min(out.least, one.peak_reserved());
    out.num_alloc_retries += one.num_alloc_retries();
    out.driver_ms += one.driver_time.ms();
  }
  out.most = all.peak_reserved;
  out.out_of_memory = all.out_of_memory;
  return out;
}

/// Whether a process of the longest samples alone lives: those are drawn some day, though perhaps not in these steps.
bool longest_lives(const DrawnJob& job, sim::WorkloadSource& workloads, const Settings& settings) {
  sim::ForecastRequest request;
  request.lengths = sim::Lengths::constant(job.longest);
  request.steps = sim::kLeastStepsAlone;
  const auto alone = processes_at(job, workloads, settings, std::move(request));
  return alone && sim::outcome_of(*alone).out_of_memory == 0;
}

}  // namespace

Result<sim::DrawnMemory> drawn_memory(const DrawnJob& job, Console& console) {
  const auto workloads = traces::workloads_of(job.planned.source, job.planned.machine);
  Progress progress(console, "steps of lengths that vary");
  return memory_at(job, *workloads, job.planned.settings, progress);
}

std::optional<sim::DrawnFit> drawn_fit(const DrawnJob& job, Console& console) {
  const Settings& own = job.planned.settings;
  const auto workloads = traces::workloads_of(job.planned.source, job.planned.machine);
  Progress progress(console, "simulating what would fit");
  std::vector<sim::Candidate> changes = sim::settings_changes(own);
  if (own.alloc_conf.empty()) {
    Settings expandable = own;
    expandable.alloc_conf = kExpandable;
    changes.insert(changes.begin(), {expandable, std::string("--alloc-conf ") + kExpandable, {}, {}, {}});
  }
  if (own.batch.value_or(1) > 1 && own.checkpoint == Checkpoint::none) {  // last: it changes what is trained on most
    Settings least = own;
    least.batch = 1;
    least.checkpoint = Checkpoint::blocks;
    changes.push_back({least, sim::setting_text(own, least), {}, {}, {}});
  }
  std::optional<sim::DrawnFit> by_retries;
  for (const sim::Candidate& change : changes) {
    if (!longest_lives(job, *workloads, change.settings)) continue;
    const auto memory = memory_at(job, *workloads, change.settings, progress);
    if (!memory || memory->out_of_memory > 0) continue;
    const sim::DrawnFit fit{change.setting, memory->most, memory->num_alloc_retries};
    if (fit.num_alloc_retries == 0) return fit;
    if (!by_retries) by_retries = fit;
  }
  return by_retries;
}

}  // namespace foreshard::cli
