// `foreshard compare A B`: two runs side by side, time and memory, by phase and unit, and why their steps differ.

#include "core/compare/compare.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/reports/compare_report.hpp"
#include "cli/reports/fingerprint.hpp"
#include "cli/verbs/page_output.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/units.hpp"
#include "core/compare/model_difference.hpp"
#include "traces/store/store.hpp"

namespace foreshard::cli {
namespace {

struct CompareOptions {
  std::string a;
  std::string b;
  std::optional<std::uint32_t> step;
  std::uint32_t units = 8;
  std::string page;
  bool force = false;
  bool json = false;
  bool exit_code = false;
};

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

Result<int> compare(const CompareOptions& options, Console& console) {
  std::optional<std::int32_t> step;
  if (options.step) {
    if (*options.step > INT32_MAX) return fail(ErrorKind::usage, "no run has that many steps", "--step");
    step = static_cast<std::int32_t>(*options.step);
  }
  CompareReport report;
  std::array<Run, 2> runs;
  std::array<RunSummary*, 2> summaries{&report.a, &report.b};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string& path = i == 0 ? options.a : options.b;
    auto run = traces::read_run(path);
    FORESHARD_TRY(run);
    runs[i] = std::move(*run);
    auto summary = summarise(runs[i], path, step);
    FORESHARD_TRY(summary);
    *summaries[i] = std::move(*summary);
    summaries[i]->fingerprint = fingerprint_of(runs[i]);
  }
  auto comparison = compare_runs(runs[0], runs[1], {step, step, reported(report.a), reported(report.b)});
  FORESHARD_TRY(comparison);
  report.comparison = std::move(*comparison);
  report.different_models = model_difference(runs[0], runs[1]);
  report.steps_differ = !step && (steps_differ(runs[0]) || steps_differ(runs[1]));
  take_step_time(report.comparison.a, report.a);
  take_step_time(report.comparison.b, report.b);
  if (report.steps_differ)
    console.warn(
        "recorded steps differ: step times are means of several, but lanes, phases and units are those of the steps "
        "that are named, which may have other sequence lengths; --step takes the same one of both");
  if (!options.page.empty()) {
    const PageFile file{options.page, "auto", options.force};
    auto written = write_comparison_page(runs[0], options.a, runs[1], options.b, compare_json(report), file);
    FORESHARD_TRY(written);
    console.note("wrote " + options.page);
  }
  if (options.json)
    print_json(console.out, compare_json(report));
  else
    print_compare(console.out, report, options.units);
  return options.exit_code && differs(report) ? kDiffers : kDone;
}

}  // namespace

Action add_compare(OptionSet& set) {
  auto options = std::make_shared<CompareOptions>();
  set.add_option("a", options->a, "a run store").required().type_name("A");
  set.add_option("b", options->b, "another, held against it").required().type_name("B");
  add_parsed<std::uint32_t>(set, "--step", options->step, &parse_count, "of both; default: each run's last")
      .type_name("N");
  set.add_option("--units", options->units, "how many units to show, largest difference first; default 8")
      .type_name("N");
  set.add_option("-o,--output", options->page, "also write the interactive page of both").type_name("FILE.html");
  set.add_flag("--force", options->force, "write over an existing page");
  set.add_flag("--json", options->json, "as JSON, with every row");
  set.add_flag("--exit-code", options->exit_code, "exit with 13 where anything differs");
  return [options](Console& console) { return compare(*options, console); };
}

}  // namespace foreshard::cli
