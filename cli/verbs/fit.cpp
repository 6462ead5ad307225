// `foreshard fit --ranks RUN`: what makes a recording's ranks differ.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/option_set.hpp"
#include "cli/reports/rank_fit_report.hpp"
#include "cli/terminal/output.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/straggler/rank_fit.hpp"
#include "traces/store/store.hpp"

namespace foreshard::cli {
namespace {

struct FitOptions {
  std::string run;
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

Result<int> fit(const FitOptions& options, Console& console) {
  if (!options.ranks)
    return fail(ErrorKind::usage, "what is to be fitted?", {}, "--ranks: what makes the ranks of RUN differ");
  const auto run = traces::read_run(options.run, {console.unverified});
  FORESHARD_TRY(run);
  const auto found = fit_ranks(*run);
  if (!found) return tl::unexpected(not_compared(*run, options.run));
  if (options.json) {
    Json json = json_result("fit");
    json.update(rank_fit_json(*found));
    print_json(console.out, json);
  } else {
    print_rank_fit(console.out, *found);
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
  set.add_flag("--json", options->json, "as JSON");
  return [options](Console& console) { return fit(*options, console); };
}

}  // namespace foreshard::cli
