// Prints how far the model families' generators agree with the reference runs, request by request.
//   FORESHARD_TRUTH=FOLDER model_sequences [NAME...]
// With names: the first difference of each, too.
#include <fmt/format.h>

#include "core/models/generate.hpp"
#include "tests/reference/reference_runs.hpp"
#include "tests/reference/sequence_diff.hpp"
#include "tests/truth_folder.hpp"

using namespace foreshard;

int main(int argc, char** argv) {
  const auto folder = test::truth_folder("runs");
  if (!folder) {
    fmt::print("{}\n", test::kNoTruth);
    return 2;
  }
  reference::ReferenceRuns runs(*folder);
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  for (const std::string& name : wanted.empty() ? runs.names() : wanted) {
    const auto model = runs.model(name);
    if (!model) continue;
    const Workload& recorded = runs.run(name).workload;
    const auto generated = generate(*model, recorded.settings, {}, recorded.sm_count);
    if (!generated) {
      fmt::print("{:<24} {}\n", name, generated.error().text());
      continue;
    }
    const auto diff = reference::compare_sequences(recorded, *generated);
    fmt::print("{:<24} {} of {} requests equal, {} categories differ{}{}\n", name, diff.requests - diff.different,
               diff.requests, diff.categories, recorded.units == generated->units ? "" : ", UNITS differ",
               recorded.parameters_order == generated->parameters_order ? "" : ", parameter ORDER differs");
    if (!wanted.empty() && !diff.same()) fmt::print("{}\n", diff.first);
  }
  return 0;
}
