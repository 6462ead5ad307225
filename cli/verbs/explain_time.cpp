#include "cli/verbs/explain_time.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/options/options.hpp"
#include "cli/reports/fingerprint.hpp"
#include "cli/reports/hang_report.hpp"
#include "cli/reports/job_end.hpp"
#include "cli/reports/time_answer.hpp"
#include "cli/reports/time_report.hpp"
#include "cli/verbs/explain_remedies.hpp"
#include "cli/verbs/run_links.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/run/plan_results.hpp"
#include "core/run/step_shapes.hpp"
#include "sim/predict/measured_by_step.hpp"
#include "sim/roofline/roofline.hpp"
#include "viz/svg/time_path.hpp"

namespace foreshard::cli {
namespace {

/// Of a job that hangs: there is no step whose time could be looked at, and who waits for whom is the answer.
Result<int> explain_hang(const ExplainedTime& wanted, Console& console) {
  if (!wanted.picture.empty())
    return fail(ErrorKind::input, "a job that hangs has no step whose critical path could be drawn", wanted.path,
                "leave out -o; foreshard view draws what each rank did until then, and export --format svg-graph who "
                "waits for whom");
  if (wanted.json) {
    Json json = json_result("explain");
    json["run"] = wanted.path;
    json["name"] = wanted.run.info.name;
    json["ends"] = stored_end_json(wanted.run);
    json["headline"] = plan_end(wanted.run).front();
    json["hang"] = stored_hang(wanted.run);
    print_json(console.out, json);
  } else {
    print_stored_hang(console.out, wanted.run);
  }
  return static_cast<int>(kDone);
}

/// Of a recording whose steps differ.
std::optional<double> measured_of_size(const ExplainedTime& wanted, const TimeExplanation& time) {
  if (wanted.of_run == nullptr || wanted.run.info.kind != RunKind::imported) return std::nullopt;
  const StepShape shape = StepShapes(wanted.run).of(time.recording, time.step);
  return sim::measured_of(*wanted.of_run, shape.batch, shape.seq);
}

/// Whether the plan's ops are those of a rank that runs another program than its workload: other shapes, or more.
bool runs_own_program(const Run& run) {
  for (const char* member : {"own_program", "seq", "gemms"})
    for (const RankMember& rank : ranks_with(run, member))
      if (rank.told) return true;
  return false;
}

/// Of the step that the report is of, where it is of one of several that differ; else of all that ranks are held
/// against one another in.
std::optional<Stragglers> stragglers_beside(const ExplainedTime& wanted, const TimeExplanation& time) {
  const bool of_one = wanted.step || StepShapes(wanted.run).differ();
  return of_one ? find_stragglers(wanted.run, time.step) : find_stragglers(wanted.run);
}

/// With the links' profile: where there is none, links_of() has said so.
Result<void> add_roofline(const ExplainedTime& wanted, TimeReport& report) {
  if (!report.links || wanted.of_run == nullptr) return {};
  const Run& run = diagnosed_run(report);
  if (runs_own_program(run)) return {};
  const auto machine = machine_of_run(wanted.remedies.machine, run);
  FORESHARD_TRY(machine);
  report.roofline = sim::roofline(run, *wanted.of_run, report.links->loads, diagnosed_time(report), *machine);
  return {};
}

}  // namespace

Result<int> explain_time_of(const ExplainedTime& wanted, Console& console) {
  if (hung_step(wanted.run) && !plan_end(wanted.run).empty() && !stored_hang(wanted.run).is_null())
    return explain_hang(wanted, console);
  const auto time = explain_time(wanted.run, wanted.step);
  if (!time) return tl::unexpected(in_run(time.error(), wanted.run.info.name, wanted.path));
  TimeReport report{
      wanted.path, wanted.run, *time, critical_path(wanted.run, *time), std::nullopt, stragglers_beside(wanted, *time),
      std::nullopt};
  if (!wanted.step) report.reported = step_time(wanted.run);
  report.measured_of_size = measured_of_size(wanted, *time);
  report.rank_path = rank_path(wanted.run, time->step);
  report.fingerprint = fingerprint_of(wanted.run);
  report.no_remedies = wanted.no_remedies;
  add_clean_step(wanted.workload.get(), wanted.remedies, report);
  auto links = links_of(diagnosed_run(report), wanted.of_run, wanted.remedies.machine, console);
  FORESHARD_TRY(links);
  report.links = std::move(*links);
  FORESHARD_TRY(add_roofline(wanted, report));
  if (wanted.workload) FORESHARD_TRY(add_time_remedies(wanted.workload, wanted.remedies, console, report));
  if (!wanted.picture.empty()) {
    FORESHARD_TRY(write_text(
        wanted.picture, viz::draw_time_path(wanted.run, *time, report.critical_path, {.headline = answer_text(report)}),
        wanted.force));
    console.note("wrote " + wanted.picture);
  }
  if (wanted.json)
    print_json(console.out, time_json(report));
  else
    print_time(console.out, report, wanted.detail);
  return static_cast<int>(kDone);
}

}  // namespace foreshard::cli
