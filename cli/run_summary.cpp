#include "cli/run_summary.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/schedule/settings_table.hpp"
#include "traces/store/query.hpp"
#include "traces/store/store.hpp"

namespace foreshard::cli {
namespace {

std::optional<double> result_number(const Run& run, const std::string& key) {
  const auto found = run.results.find(key);
  if (found == run.results.end()) return std::nullopt;
  const auto value = nlohmann::json::parse(found->second, nullptr, false);
  return value.is_number() ? std::optional<double>(value.get<double>()) : std::nullopt;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// The last step of the recordings that saw the device, or memory.
const StepRecord* last_step(const Run& run, bool memory) {
  const StepRecord* found = nullptr;
  for (const StepRecord& step : run.steps) {
    const bool fits = step.recording == Recording::run || (step.recording == Recording::snapshot) == memory;
    if (fits && (found == nullptr || step.index >= found->index)) found = &step;
  }
  return found;
}

void add_memory(const Run& run, RunSummary& summary) {
  const StepRecord* step = last_step(run, true);
  if (step == nullptr) return;
  summary.peaks = step->peaks;
  summary.num_alloc_retries = step->num_alloc_retries;
}

void add_phases(const Run& run, RunSummary& summary) {
  const StepRecord* step = last_step(run, false);
  if (step == nullptr) step = last_step(run, true);
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

Result<void> add_times(const std::string& path, RunSummary& summary) {
  const auto rows = traces::query(path,
                                  "SELECT compute_busy, communication_busy, exposed FROM step_summary "
                                  "WHERE compute_busy > 0 ORDER BY step DESC LIMIT 1");
  if (!rows) return tl::unexpected(rows.error());
  if (rows->rows.empty()) return {};
  summary.compute_ms = in_ms(rows->rows[0][0]);
  summary.communication_ms = in_ms(rows->rows[0][1]);
  summary.exposed_communication_ms = in_ms(rows->rows[0][2]);
  return {};
}

Result<void> add_categories(const std::string& path, RunSummary& summary) {
  const auto rows = traces::query(path,
                                  "SELECT category, bytes FROM peak_by_category WHERE step = (SELECT max(step) FROM "
                                  "peak_by_category) ORDER BY bytes DESC, category");
  if (!rows) return tl::unexpected(rows.error());
  for (const auto& row : rows->rows) {
    const auto* category = std::get_if<std::string>(&row[0]);
    const auto* bytes = std::get_if<std::int64_t>(&row[1]);
    if (category != nullptr && bytes != nullptr && *bytes > 0)
      summary.peak_by_category.emplace_back(*category, static_cast<Bytes>(*bytes));
  }
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

Result<RunSummary> summarise(const std::string& path) {
  const auto run = traces::read_run(path);
  if (!run) return tl::unexpected(run.error());
  RunSummary summary;
  summary.path = path;
  summary.info = run->info;
  summary.choices = choices(run->settings);
  summary.step_ms = step_ms(*run, summary.step_ms_source);
  add_memory(*run, summary);
  add_phases(*run, summary);
  if (auto added = add_times(path, summary); !added) return tl::unexpected(added.error());
  if (auto added = add_categories(path, summary); !added) return tl::unexpected(added.error());
  return summary;
}

}  // namespace foreshard::cli
