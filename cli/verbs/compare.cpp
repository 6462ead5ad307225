// `foreshard compare A B`: two runs side by side, time and memory, by phase and unit, and why their steps differ.

#include <fmt/core.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/reports/compare_report.hpp"
#include "cli/verbs/compare_pair.hpp"
#include "cli/verbs/page_output.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/units.hpp"
#include "traces/store/store.hpp"

namespace foreshard::cli {
namespace {

struct CompareOptions {
  std::string a;
  std::string b;
  std::optional<std::uint32_t> step;
  std::optional<std::uint32_t> step_b;
  std::uint32_t units = 8;
  std::string page;
  bool force = false;
  bool json = false;
  bool exit_code = false;
};

Result<void> take_step(const std::optional<std::uint32_t>& number, const char* option,
                       std::optional<std::int32_t>& step) {
  if (!number) return {};
  if (*number > INT32_MAX) return fail(ErrorKind::usage, "no run has that many steps", option);
  step = static_cast<std::int32_t>(*number);
  return {};
}

Result<int> compare(const CompareOptions& options, Console& console) {
  if (!options.page.empty()) {
    if (!options.page.ends_with(".html"))
      return fail(ErrorKind::usage, "the page of a comparison is written as .html", options.page, "name it x.html");
    FORESHARD_TRY(may_write(options.page, options.force));
  }
  ComparedSteps steps;
  FORESHARD_TRY(take_step(options.step, "--step", steps.a));
  FORESHARD_TRY(take_step(options.step_b ? options.step_b : options.step, "--step-b", steps.b));
  std::array<Run, 2> runs;
  for (std::size_t i = 0; i < 2; ++i) {
    auto run = traces::read_run(i == 0 ? options.a : options.b, {console.unverified});
    FORESHARD_TRY(run);
    runs[i] = std::move(*run);
  }
  auto compared = compare_pair(runs[0], options.a, runs[1], options.b, steps);
  FORESHARD_TRY(compared);
  const CompareReport& report = *compared;
  if (report.hangs() && !options.page.empty())
    return fail(ErrorKind::input, "a job that hangs has no step to lay beside another one",
                report.a.hangs ? report.a.path : report.b.path,
                "leave out -o; foreshard view draws what each rank did until then");
  if (report.work.steps_differ)
    console.note(
        "recorded steps differ: what stands below the first lines is of the steps that are named; --step and --step-b "
        "take others");
  if (!options.page.empty()) {
    const PageFile file{options.page, "auto", options.force};
    auto written = write_comparison_page(runs[0], options.a, runs[1], options.b, compare_json(report), file, console);
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
  add_parsed<std::uint32_t>(set, "--step-b", options->step_b, &parse_count,
                            "of B, where it is another than A's; A and B may be one run")
      .type_name("N");
  set.add_option("--units", options->units, "how many units to show, largest difference first; default 8")
      .type_name("N");
  set.add_option("-o,--output", options->page, "also write the interactive page of both")
      .type_name("FILE.html")
      .writes();
  set.add_flag("--force", options->force, "write over an existing page");
  set.add_flag("--json", options->json, "as JSON, with every row");
  set.add_flag("--exit-code", options->exit_code, "exit with 13 where anything differs");
  return [options](Console& console) { return compare(*options, console); };
}

}  // namespace foreshard::cli
