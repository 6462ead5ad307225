// Every prediction of the reference runs against tests/reference/accuracy_baseline.csv, which `./dev accuracy` writes:
// no row may get worse, one that got better is written anew, rows of new recordings are told.
//
// The recordings are in the folder that the environment's FORESHARD_TRUTH names; without it the test is skipped.
#include "sim/parallel/for_each.hpp"
#include "tests/baseline.hpp"
#include "tests/truth_folder.hpp"

namespace foreshard::accuracy {
namespace {

TEST_CASE("no prediction of a reference run is worse than it was", "[slow]") {
  if (!test::truth_folder("runs")) FORESHARD_SKIP(test::kNoTruth);
  const std::string root = *test::truth_folder();
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  const auto accuracy = measure_accuracy(*machine, {root, sim::hardware_threads(), {}});
  INFO((accuracy ? std::string() : accuracy.error().text()));
  REQUIRE(accuracy);
  Baseline now;
  add_runs(*accuracy, now);
  hold(now);
}

}  // namespace
}  // namespace foreshard::accuracy
