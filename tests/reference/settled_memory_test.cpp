// What each reference run had reserved behind its measured steps, against what its plan says of a longer run.
//
// Bars: exact; where memory follows the GPU (record_stream) and grows behind the recorded steps, no more than what the
// plan says it comes to and at least 85 % of it, since a dozen steps need not be enough.
//
// The recordings are in the folder that the environment's FORESHARD_TRUTH names; without it the test is skipped.
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/reference/reference_runs.hpp"
#include "tests/truth_folder.hpp"

namespace foreshard::reference {
namespace {

TEST_CASE("what a longer run reserves", "[slow]") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  ReferenceRuns runs(*folder);
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  int equal = 0;
  int settled = 0;
  int grown = 0;
  for (const std::string& name : runs.names()) {
    const ReferenceRun& run = runs.run(name);
    if (!run.not_importable.empty() || run.measured.reserved_at_end == 0 || !run.workload.has_timing) continue;
    INFO(name);
    const auto p = sim::predict(run.workload, *machine, {run.workload.settings, {}, 4});
    REQUIRE(p);
    const Bytes measured = run.measured.reserved_at_end;
    if (!p->settled) {
      CHECK(largest_peaks(*p).reserved == measured);
      ++equal;
      continue;
    }
    INFO("settles at " << p->settled->reserved << " in step " << p->settled->step << ", measured " << measured);
    CHECK_FALSE(p->settled->grows);
    ++settled;
    grown += p->settled->reserved > p->peaks.reserved ? 1 : 0;
    if (p->settled->reserved == p->peaks.reserved) CHECK(p->settled->reserved == measured);
    CHECK(p->settled->reserved >= measured);
    CHECK(static_cast<double>(measured) >= 0.85 * static_cast<double>(p->settled->reserved));
  }
  CHECK(equal > 0);
  CHECK(settled > 0);
  CHECK(grown > 0);
}

}  // namespace
}  // namespace foreshard::reference
