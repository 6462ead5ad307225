// `foreshard fit --ranks RUN`: what makes a recording's ranks differ.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/options/option_set.hpp"
#include "cli/options/source_options.hpp"
#include "cli/reports/rank_fit_report.hpp"
#include "cli/terminal/output.hpp"
#include "cli/verbs/explain_remedies.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/run/plan_results.hpp"
#include "core/straggler/rank_fit.hpp"
#include "sim/link_load/link_fit.hpp"
#include "sim/machine/profile.hpp"
#include "traces/store/store.hpp"

namespace foreshard::cli {
namespace {

struct FitOptions {
  std::string run;
  std::string machine;
  bool ranks = false;
  bool json = false;
};

/// Why fit_ranks() found nothing to compare.
Error not_compared(const Run& run, const std::string& path) {
  constexpr const char* kImport = "import the traces of all ranks: import FOLDER --rank all, or --rank-trace for each";
  if (is_folded_plan(run))
    return {ErrorKind::input,
            fmt::format("it is a plan that shows {} of {} ranks: one of each group of equal ones, and not how many are "
                        "like which",
                        run.ranks.size(), run.settings.world()),
            path, "plan shows all ranks of a job of up to 16; of a recording, " + std::string(kImport)};
  if (run.ranks.size() > 1)
    return {ErrorKind::input, "none of its steps is whole on all of its ranks", path,
            "record two steps or more on each rank, at the same time"};
  if (run.info.kind == RunKind::planned)
    return {ErrorKind::input, "it is a plan of ranks that nothing tells apart", path, kImport};
  return {ErrorKind::input, "it has the ops of one rank alone", path, kImport};
}

/// What a profile says of the run's links: the one that is asked for, else the run's own, where that is known.
Result<void> add_links(const Run& run, const std::string& machine, RankFitReport& report) {
  if (machine.empty() && (run.info.machine.empty() || !machine_note(run.info.machine).empty())) return {};
  const auto profile = machine_of_run(machine, run);
  if (!profile && machine.empty()) return {};
  FORESHARD_TRY(profile);
  report.links = sim::fit_links(run, report.fit, *profile);
  report.machine = profile->name;
  return {};
}

Result<int> fit(const FitOptions& options, Console& console) {
  if (!options.ranks)
    return fail(ErrorKind::usage, "what is to be fitted?", {}, "--ranks: what makes the ranks of RUN differ");
  const auto run = traces::read_run(options.run, {console.unverified});
  FORESHARD_TRY(run);
  if (const auto lengths = ranks_with(*run, "seq"); !lengths.empty())
    return fail(ErrorKind::input,
                fmt::format("rank {}'s samples have a length of their own: it does other work, whose times say nothing "
                            "of its GPU",
                            lengths.front().first_rank),
                options.run, "explain --time says who waits for whom; fit a job whose ranks have equal samples");
  auto found = fit_ranks(*run);
  if (!found) return tl::unexpected(not_compared(*run, options.run));
  RankFitReport report{std::move(*found)};
  FORESHARD_TRY(add_links(*run, options.machine, report));
  if (options.json) {
    Json json = json_result("fit");
    json.update(rank_fit_json(report));
    print_json(console.out, json);
  } else {
    print_rank_fit(console.out, report);
  }
  return kDone;
}

}  // namespace

Action add_fit(OptionSet& set) {
  auto options = std::make_shared<FitOptions>();
  set.add_option("run", options->run, "an import of several ranks' traces, or a plan whose ranks differ")
      .required()
      .type_name("RUN");
  set.add_flag(
      "--ranks", options->ranks,
      "which GPU or host is slower than the others', and by how much; likewise groups of links, of a job that has "
      "several alike");
  set.add_option("--machine", options->machine,
                 "profile that collectives are held against, and a slow link is named by; default: the run's")
      .type_name("NAME|FILE")
      .suggest(sim::builtin_profile_names());
  set.add_flag("--json", options->json, "as JSON");
  return [options](Console& console) { return fit(*options, console); };
}

}  // namespace foreshard::cli
