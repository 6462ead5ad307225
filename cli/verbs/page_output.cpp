#include "cli/verbs/page_output.hpp"

#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/options.hpp"
#include "cli/reports/straggler_report.hpp"
#include "cli/verbs/explain_remedies.hpp"
#include "core/base/json_io.hpp"
#include "core/explain/explanation.hpp"
#include "core/straggler/straggler.hpp"
#include "traces/workload_file/workload_file.hpp"
#include "viz/pack/page.hpp"
#include "viz/scene/caption.hpp"

namespace foreshard::cli {
namespace {

std::string text_of(const Json& json) {
  return json_text(json);
}

/// As explain does; says why not where that cannot be.
void simulate(const Run& run, const std::string& name, const std::string& machine, Console& console,
              ExplainReport& report) {
  if (run.workload_json.empty()) {
    report.no_remedies = "the store holds no workload: import the snapshot with --about";
    return;
  }
  auto workload = traces::stored_workload(run.workload_json, run.info.kind == RunKind::executed, name + " (workload)");
  const auto done =
      workload ? add_remedies(std::make_shared<const Workload>(std::move(*workload)), {machine, {}}, console, report)
               : tl::unexpected(workload.error());
  if (!done) report.no_remedies = done.error().what;
}

}  // namespace

Json page_explanation(const Run& run, const std::string& name, std::optional<std::int32_t> step,
                      const std::optional<std::string>& machine, Console& console) {
  constexpr std::size_t kNoSeries = 0;  // the page has every event of it
  ExplainRequest request;
  request.step = step;
  const auto explanation = explain(run, request);
  if (!explanation) return nullptr;
  ExplainReport report{name, run, *explanation, std::nullopt, {}};
  if (machine)
    simulate(run, name, *machine, console, report);
  else
    report.no_remedies = "--no-remedies";
  return explain_json(report, kNoSeries);
}

Result<void> write_run_page(const Run& run, const viz::PackOptions& options, const Json& explanation,
                            const PageFile& file) {
  auto pack = viz::Pack::make(run, options);
  FORESHARD_TRY(pack);
  std::vector<viz::Pack> packs;
  packs.push_back(std::move(*pack));
  std::vector<viz::PageExtra> extras;
  if (!explanation.is_null()) extras.push_back({"explain", text_of(explanation)});
  if (const auto stragglers = find_stragglers(run)) extras.push_back({"ranks", text_of(stragglers_json(*stragglers))});
  const viz::PageShell shell{viz::headline(run), file.theme, {{"", viz::headline(run)}}, ""};
  return write_text(file.path, viz::page_file(shell, packs, extras), file.force);
}

Result<void> write_comparison_page(const Run& a, const std::string& a_name, const Run& b, const std::string& b_name,
                                   const Json& comparison, const PageFile& file) {
  std::vector<viz::Pack> packs;
  for (const Run* run : {&a, &b}) {
    auto pack = viz::Pack::make(*run, {});
    if (!pack) {
      if (pack.error().where.empty()) pack.error().where = run == &a ? a_name : b_name;
      return tl::unexpected(pack.error());
    }
    packs.push_back(std::move(*pack));
  }
  const viz::PageShell shell{
      fmt::format("{} and {}", a_name, b_name), file.theme, {{"a/", "A: " + a_name}, {"b/", "B: " + b_name}}, ""};
  return write_text(file.path, viz::page_file(shell, packs, {{"compare", text_of(comparison)}}), file.force);
}

}  // namespace foreshard::cli
