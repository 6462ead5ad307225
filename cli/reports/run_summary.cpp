#include "cli/reports/run_summary.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"
#include "core/base/median.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/store/query.hpp"

namespace foreshard::cli {
namespace {

std::optional<double> result_number(const Run& run, const std::string& key) {
  const auto found = run.results.find(key);
  if (found == run.results.end()) return std::nullopt;
  const auto value = parse_json_text(found->second);
  return value.is_number() ? std::optional<double>(value.get<double>()) : std::nullopt;
}

using Wanted = std::optional<std::int32_t>;

/// The step asked for, or the last one, of the recordings that saw the device, or memory.
const StepRecord* last_step(const Run& run, bool memory, const Wanted& wanted = {}) {
  const StepRecord* found = nullptr;
  for (const StepRecord& step : run.steps) {
    const bool fits = step.recording == Recording::run || (step.recording == Recording::snapshot) == memory;
    if (!fits || (wanted && step.index != *wanted)) continue;
    if (found == nullptr || step.index >= found->index) found = &step;
  }
  return found;
}

void add_memory(const Run& run, const Wanted& wanted, RunSummary& summary) {
  const StepRecord* step = last_step(run, true, wanted);
  if (step == nullptr) return;
  summary.peaks = step->peaks;
  summary.num_alloc_retries = step->num_alloc_retries;
}

void add_phases(const Run& run, const Wanted& wanted, RunSummary& summary) {
  const StepRecord* step = last_step(run, false, wanted);
  if (step == nullptr) step = last_step(run, true, wanted);
  if (step == nullptr) return;
  for (const PhaseRecord& phase : run.phases) {
    if (phase.recording != step->recording || phase.step != step->index) continue;
    const double ms = (phase.end - phase.start).ms();
    const auto found = std::find_if(summary.phases_ms.begin(), summary.phases_ms.end(),
                                    [&](const auto& entry) { return entry.first == phase.name; });
    if (found == summary.phases_ms.end())
      summary.phases_ms.emplace_back(phase.name, ms);
    else
      found->second += ms;
  }
}

double in_ms(const traces::QueryValue& nanoseconds) {
  const auto* integer = std::get_if<std::int64_t>(&nanoseconds);
  return integer == nullptr ? 0 : static_cast<double>(*integer) / 1e6;
}

Result<void> add_times(const std::string& path, const Wanted& wanted, RunSummary& summary) {
  const std::string only = wanted ? fmt::format("AND step = {} ", *wanted) : "";
  const auto rows = traces::query(path,
                                  "SELECT compute_busy, communication_busy, exposed FROM step_summary "
                                  "WHERE compute_busy > 0 " +
                                      only + "ORDER BY step DESC LIMIT 1");
  FORESHARD_TRY(rows);
  if (rows->rows.empty()) return {};
  summary.compute_ms = in_ms(rows->rows[0][0]);
  summary.communication_ms = in_ms(rows->rows[0][1]);
  summary.exposed_communication_ms = in_ms(rows->rows[0][2]);
  return {};
}

}  // namespace

std::optional<double> step_ms(const Run& run, std::string& source) {
  source = "predicted";
  if (const auto predicted = result_number(run, "step_ms")) return predicted;
  if (run.measured && !run.measured->step_ms.empty()) {
    source = "measured";
    std::vector<double> steps = run.measured->step_ms;
    if (steps.size() > 4) steps.erase(steps.begin(), steps.begin() + 2);
    return median(std::move(steps));
  }
  source = "profiled";
  const StepRecord* step = last_step(run, false);
  if (step == nullptr) return std::nullopt;
  return (step->end - step->start).ms();
}

Result<RunSummary> summarise(const Run& run, const std::string& path, const std::optional<std::int32_t>& step) {
  RunSummary summary;
  summary.path = path;
  summary.info = run.info;
  summary.setting_options = setting_options(run.settings);
  if (!step) summary.step_ms = step_ms(run, summary.step_ms_source);
  add_memory(run, step, summary);
  add_phases(run, step, summary);
  FORESHARD_TRY(add_times(path, step, summary));
  return summary;
}

}  // namespace foreshard::cli
