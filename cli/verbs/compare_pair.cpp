#include "cli/verbs/compare_pair.hpp"

#include <array>

#include "cli/reports/fingerprint.hpp"
#include "core/compare/compare.hpp"
#include "core/compare/model_difference.hpp"

namespace foreshard::cli {
namespace {

/// A recording whose steps differ, or a plan of one.
bool steps_differ(const Run& run) {
  return run.results.contains("cycle") || (run.measured && run.measured->cycle > 1);
}

/// The step time that the budget explains: what the table shows, unless that is host time under a profiler.
std::optional<Nanoseconds> reported(const RunSummary& summary) {
  if (!summary.step_ms || summary.step_ms_source == "profiled") return std::nullopt;
  return Nanoseconds::from_double(*summary.step_ms * 1e6);
}

void take_step_time(const ComparedSide& side, RunSummary& summary) {
  if (summary.step_ms || !side.time) return;
  summary.step_ms = (side.time->end - side.time->begin).ms();
  summary.step_ms_source = "timeline";
}

}  // namespace

Result<CompareReport> compare_pair(const Run& a, const std::string& a_path, const Run& b, const std::string& b_path,
                                   const ComparedSteps& steps) {
  CompareReport report;
  const std::array<const Run*, 2> runs{&a, &b};
  const std::array<const std::string*, 2> paths{&a_path, &b_path};
  const std::array<RunSummary*, 2> summaries{&report.a, &report.b};
  for (std::size_t i = 0; i < 2; ++i) {
    *summaries[i] = summarise(*runs[i], *paths[i], i == 0 ? steps.a : steps.b);
    summaries[i]->fingerprint = fingerprint_of(*runs[i]);
  }
  auto comparison = compare_runs(a, b, {steps.a, steps.b, reported(report.a), reported(report.b)});
  FORESHARD_TRY(comparison);
  report.comparison = std::move(*comparison);
  report.different_models = model_difference(a, b);
  report.steps_differ = (!steps.a && steps_differ(a)) || (!steps.b && steps_differ(b));
  take_step_time(report.comparison.a, report.a);
  take_step_time(report.comparison.b, report.b);
  return report;
}

}  // namespace foreshard::cli
