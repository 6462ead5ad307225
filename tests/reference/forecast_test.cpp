// A forecast from the recording whose steps differ (vary_l1b: 2048, 1536, 1024, 1536, … tokens) against what
// torch.cuda.memory_stats() said behind each of its eight steps; and from its first four steps alone.
//
// The recording is in the folder that the environment's FORESHARD_TRUTH names; without it the test is skipped.
#include "sim/forecast/forecast.hpp"

#include <array>

#include "core/adapt/adapt.hpp"
#include "sim/predict/process_memory_options.hpp"
#include "tests/catch.hpp"
#include "tests/reference/reference_runs.hpp"
#include "tests/truth_folder.hpp"

namespace foreshard::reference {
namespace {

void hold(const Workload& workload, const std::vector<MemoryPeaks>& measured) {
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  const Settings& settings = workload.settings;
  const auto adapted = adapt(workload, settings);
  REQUIRE(adapted);
  auto programs = sim::recorded_programs(adapted->workload, settings, sim::BetweenOrders::refuse);
  REQUIRE(programs);
  std::string lengths;
  for (std::size_t step = 0; step < measured.size(); ++step)
    lengths += std::to_string(std::array{2048, 1536, 1024, 1536}[step % 4]) + "\n";
  sim::ForecastRequest request{sim::parse_length_list(lengths, "lengths").value(), measured.size(), {0}, {}};
  request.process.options.config = parse_alloc_conf(settings.alloc_conf, settings.pytorch).value();
  request.process.options.memory = sim::process_memory_options(adapted->workload, settings, *machine, {}, true).memory;
  const auto seeds = sim::run_forecast(**programs, request);
  REQUIRE(seeds);
  for (std::size_t step = 0; step < measured.size(); ++step) {
    INFO("step " << step);
    CHECK(seeds->front().steps[step].peak_reserved == measured[step].reserved);
    CHECK(seeds->front().steps[step].peak_allocated == measured[step].allocated);
  }
}

TEST_CASE("a recording whose lengths differ", "[slow]") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  ReferenceRuns runs(*folder);
  if (!runs.has("vary_l1b")) FORESHARD_SKIP("no vary_l1b");
  const auto measured = runs.measured("vary_l1b").recorded;
  REQUIRE(measured.size() == 8);
  Workload workload = runs.run("vary_l1b").workload;
  hold(workload, measured);
  // From its first four steps: each length once, and 1536 twice.
  workload.steps.resize(4);
  workload.recorded.resize(4);
  workload.cycle = 4;
  hold(workload, measured);
}

}  // namespace
}  // namespace foreshard::reference
