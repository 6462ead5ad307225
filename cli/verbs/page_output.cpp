#include "cli/verbs/page_output.hpp"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/options.hpp"
#include "cli/reports/no_remedies.hpp"
#include "cli/reports/run_answer.hpp"
#include "cli/reports/stored_pictures.hpp"
#include "cli/reports/straggler_report.hpp"
#include "cli/reports/time_report.hpp"
#include "cli/verbs/explain_remedies.hpp"
#include "cli/verbs/run_links.hpp"
#include "core/base/json_io.hpp"
#include "core/compare/run_totals.hpp"
#include "core/explain/explanation.hpp"
#include "core/explain_time/critical_path.hpp"
#include "core/explain_time/time_explanation.hpp"
#include "core/straggler/straggler.hpp"
#include "traces/workload_file/workload_file.hpp"
#include "viz/pack/page.hpp"
#include "viz/scene/caption.hpp"
#include "viz/scene/cause_colours.hpp"
#include "viz/scene/palette.hpp"

namespace foreshard::cli {
namespace {

std::string text_of(const Json& json) {
  return json_text(json);
}

/// That remedies are simulated from.
Result<std::shared_ptr<const Workload>> workload_of(const Run& run, const std::string& name) {
  if (run.workload_json.empty())
    return fail(ErrorKind::input, "the store holds no workload: import the snapshot with --about");
  auto workload = traces::stored_workload(run.workload_json, run.info.kind == RunKind::executed, name + " (workload)");
  FORESHARD_TRY(workload);
  return std::make_shared<const Workload>(std::move(*workload));
}

/// As explain does; says why not where that cannot be.
void simulate(const Run& run, const std::string& name, const std::string& machine, Console& console,
              ExplainReport& report) {
  const auto workload = workload_of(run, name);
  const auto done =
      workload ? add_remedies(*workload, {machine, {}}, console, report) : tl::unexpected(workload.error());
  if (!done) report.no_remedies = done.error().what;
}

Json explanation_json(const Run& run, const std::string& name, const ExtraOptions& options, Console& console) {
  constexpr std::size_t kNoSeries = 0;  // the page has every event of it
  ExplainRequest request;
  request.step = options.step;
  const auto explanation = explain(run, request);
  if (!explanation) return nullptr;
  ExplainReport report{name, run, *explanation, std::nullopt, {}};
  if (options.machine)
    simulate(run, name, *options.machine, console, report);
  else
    report.no_remedies = kNoRemedies;
  return explain_json(report, kNoSeries);
}

/// What `explain --time --json` says of the step that a report is of, or of the one asked for; under "other_steps" the
/// parts of the others, and the links' load of the whole run. Null where the run recorded no device ops.
Json time_explanation_json(const Run& run, const std::string& name, const ExtraOptions& options, Console& console) {
  const TimeExplainer explainer(run);
  const auto time = explainer.explain(options.step);
  if (!time) return nullptr;
  TimeReport report{name, run, *time, critical_path(run, *time), {}, {}, {}};
  if (!options.step) report.reported = step_time(run);
  std::shared_ptr<const Workload> planned;
  if (!options.machine) {
    report.no_remedies = kNoRemedies;
  } else if (const auto workload = workload_of(run, name); !workload) {
    report.no_remedies = workload.error().what;
  } else {
    planned = *workload;
    if (const auto done = add_time_remedies(planned, {*options.machine, {}}, console, report); !done)
      report.no_remedies = done.error().what;
  }
  add_clean_step(planned.get(), {options.machine.value_or(""), {}}, report);
  Json json = time_json(report);
  const auto links = links_of(run, options.machine.value_or(""), console);
  if (!links) console.note("no links: " + links.error().text());
  if (links && *links) {
    json["links"] = links_json(**links, *time, true);
    json["links"]["colour"] = viz::kLinkColour;
  }
  json["colours"] = Json::object();
  for (const IdleCause cause : kEnumValues<IdleCause>)
    json["colours"][std::string(foreshard::name(cause))] = viz::cause_colour(cause);
  json["other_steps"] = Json::array();
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const StepRecord& step = run.steps[i];
    if (step.recording != time->recording || step.index == time->step) continue;
    const auto other = explainer.explain_at(i);
    if (!other) continue;
    json["other_steps"].push_back({{"step", step.index}, {"parts", parts_json(run, *other)}});
  }
  return json;
}

/// The same without what makes the step faster: that is on the run's own page.
Json waits_json(const Run& run, const std::string& name, const std::optional<std::int32_t>& step, Console& console) {
  Json json = time_explanation_json(run, name, {step, std::nullopt}, console);
  if (!json.is_object()) return json;
  for (const char* key : {"remedies", "remedies_missing", "not_simulated", "machine", "machine_note"}) json.erase(key);
  return json;
}

}  // namespace

std::vector<std::string> page_extras() {
  return {"answer", "pictures", "ranks", "explain", "time"};
}

std::vector<std::string> compared_page_extras() {
  return {"answer", "waits"};
}

Json page_extra(std::string_view extra, const Run& run, const std::string& name, const ExtraOptions& options,
                Console& console) {
  if (extra == "answer") {
    RunAnswer answer = run_answer(run);
    const std::vector<std::string> forecast = forecast_lines(run);  // of which the run is one step alone
    answer.lines.insert(answer.lines.begin(), forecast.begin(), forecast.end());
    return run_answer_json(answer);
  }
  if (extra == "pictures") return pictures_json(run);
  if (extra == "explain") return explanation_json(run, name, options, console);
  if (extra == "time") return time_explanation_json(run, name, options, console);
  if (extra == "waits") return waits_json(run, name, options.step, console);
  const auto stragglers = find_stragglers(run);
  return stragglers ? stragglers_json(*stragglers) : Json(nullptr);
}

Result<void> write_run_page(const Run& run, const std::string& name, const std::vector<FrontPage>& front,
                            const viz::PackOptions& options, const ExtraOptions& extra_options, const PageFile& file,
                            Console& console) {
  auto pack = viz::Pack::make(run, options);
  FORESHARD_TRY(pack);
  std::vector<viz::Pack> packs;
  packs.push_back(std::move(*pack));
  std::vector<viz::PageExtra> extras;
  for (const std::string& extra : page_extras())
    extras.push_back({extra, text_of(page_extra(extra, run, name, extra_options, console))});
  viz::PageShell shell{viz::headline(run), file.theme, {{"", viz::headline(run)}}};
  shell.one_at_a_time = !front.empty();
  for (const FrontPage& point : front) {
    auto of_point = viz::Pack::make(point.run, {});
    if (!of_point) return tl::unexpected(in_run(of_point.error(), point.run.info.name, name));
    packs.push_back(std::move(*of_point));
    const std::string prefix = fmt::format("front/{}/", point.point);
    extras.push_back({prefix + "answer", text_of(page_extra("answer", point.run, name, extra_options, console))});
    shell.runs.push_back({prefix, viz::headline(point.run)});
  }
  return write_text(file.path, viz::page_file(shell, packs, extras), file.force);
}

Result<void> write_comparison_page(const Run& a, const std::string& a_name, const Run& b, const std::string& b_name,
                                   const Json& comparison, const PageFile& file, Console& console) {
  std::vector<viz::Pack> packs;
  for (const Run* run : {&a, &b}) {
    auto pack = viz::Pack::make(*run, {});
    if (!pack) return tl::unexpected(in_run(pack.error(), run->info.name, run == &a ? a_name : b_name));
    packs.push_back(std::move(*pack));
  }
  const viz::PageShell shell = viz::comparison_shell(a_name, b_name, file.theme);
  std::vector<viz::PageExtra> extras{{"compare", text_of(comparison)}};
  for (const bool first : {true, false})
    for (const std::string& extra : compared_page_extras())
      extras.push_back({(first ? "a/" : "b/") + extra,
                        text_of(page_extra(extra, first ? a : b, first ? a_name : b_name, {}, console))});
  return write_text(file.path, viz::page_file(shell, packs, extras), file.force);
}

}  // namespace foreshard::cli
