// `foreshard fit --ranks RUN`: what makes a recording's ranks differ.

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

Result<int> fit(const FitOptions& options, Console& console) {
  if (!options.ranks)
    return fail(ErrorKind::usage, "what is to be fitted?", {}, "--ranks: what makes the ranks of RUN differ");
  const auto run = traces::read_run(options.run, {console.unverified});
  FORESHARD_TRY(run);
  const auto found = fit_ranks(*run);
  if (!found)
    return fail(ErrorKind::input, "it has the ops of one rank alone", options.run,
                "import the traces of all ranks: import FOLDER --rank all, or --rank-trace for each");
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
  set.add_flag("--ranks", options->ranks,
               "which GPU, host or group of links is slower than the others', and by how much");
  set.add_flag("--json", options->json, "as JSON");
  return [options](Console& console) { return fit(*options, console); };
}

}  // namespace foreshard::cli
