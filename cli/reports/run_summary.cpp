#include "cli/reports/run_summary.hpp"

#include <fmt/core.h>

#include "core/compare/run_totals.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/store/query.hpp"

namespace foreshard::cli {
namespace {

double in_ms(const traces::QueryValue& nanoseconds) {
  const auto* integer = std::get_if<std::int64_t>(&nanoseconds);
  return integer == nullptr ? 0 : static_cast<double>(*integer) / 1e6;
}

/// Of the step whose time is reported, from the store's own view.
Result<void> add_times(const std::string& path, const Run& run, const WantedStep& wanted, RunSummary& summary) {
  const StepRecord* step = timed_step(run, wanted);
  if (step == nullptr) return {};
  const auto rows =
      traces::query(path, fmt::format("SELECT compute_busy, communication_busy, exposed FROM step_summary "
                                      "WHERE compute_busy > 0 AND step = {}",
                                      step->index));
  FORESHARD_TRY(rows);
  if (rows->rows.empty()) return {};
  summary.compute_ms = in_ms(rows->rows[0][0]);
  summary.communication_ms = in_ms(rows->rows[0][1]);
  summary.exposed_communication_ms = in_ms(rows->rows[0][2]);
  return {};
}

}  // namespace

Result<RunSummary> summarise(const Run& run, const std::string& path, const WantedStep& wanted) {
  RunSummary summary;
  summary.path = path;
  summary.info = run.info;
  summary.setting_options = setting_options(run.settings);
  if (!wanted) {
    const auto time = step_time(run);
    if (time) summary.step_ms = time->ms;
    summary.step_ms_source = time ? time->source : "profiled";
  }
  if (const StepRecord* step = memory_step(run, wanted)) {
    summary.peaks = step->peaks;
    summary.num_alloc_retries = step->num_alloc_retries;
  }
  summary.phases_ms = phases_ms(run, wanted);
  FORESHARD_TRY(add_times(path, run, wanted, summary));
  return summary;
}

}  // namespace foreshard::cli
