// Forecasts from the recordings against what torch.cuda.memory_stats() said behind each of their steps; and from the
// first four steps of the one whose lengths differ (vary_l1b: 2048, 1536, 1024, 1536, … tokens).
//
// The recordings are in the folder that the environment's FORESHARD_TRUTH names; without it the test is skipped.
#include "sim/forecast/forecast.hpp"

#include "core/adapt/adapt.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/process_memory_options.hpp"
#include "tests/catch.hpp"
#include "tests/reference/reference_runs.hpp"
#include "tests/truth_folder.hpp"

namespace foreshard::reference {
namespace {

/// One a line, as parse_length_list() reads them; of recorded steps behind the last those from the first on.
std::string lengths_of(const Workload& workload, std::size_t steps) {
  std::string text;
  for (std::size_t step = 0; step < steps; ++step) {
    const auto& recorded = workload.recorded;
    const std::uint32_t length =
        recorded.empty() ? workload.settings.seq.value_or(0) : recorded[step % recorded.size()].seq;
    text += std::to_string(length) + "\n";
  }
  return text;
}

/// `lengths`: of the measured steps.
void hold(const Workload& workload, const std::string& lengths_text, const std::vector<MemoryPeaks>& measured) {
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  const Settings& settings = workload.settings;
  const auto adapted = adapt(workload, settings);
  REQUIRE(adapted);
  auto programs = sim::recorded_programs(adapted->workload, settings, sim::BetweenOrders::refuse);
  REQUIRE(programs);
  const auto lengths = sim::parse_length_list(lengths_text, "lengths");
  REQUIRE(lengths);
  sim::ForecastRequest request{*lengths, measured.size(), {0}, {}};
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

TEST_CASE("every step of the recordings", "[slow]") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  ReferenceRuns runs(*folder);
  int held = 0;
  for (const std::string& name : runs.names()) {
    const ReferenceRun& run = runs.run(name);
    const Workload& workload = run.workload;
    const auto& measured = run.measured.recorded;
    const bool has_lengths = !workload.recorded.empty() || workload.settings.seq.value_or(0) > 0;
    if (!run.not_importable.empty() || !has_lengths || sim::records_streams(workload, workload.settings)) {
      WARN(name << " is left out: not importable, without a sequence, or with record_stream");
      continue;
    }
    INFO(name);
    hold(workload, lengths_of(workload, measured.size()), measured);
    ++held;
  }
  CHECK(held >= 20);
}

TEST_CASE("from the first steps of a recording whose lengths differ", "[slow]") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  ReferenceRuns runs(*folder);
  if (!runs.has("vary_l1b")) FORESHARD_SKIP("no vary_l1b");
  const auto measured = runs.measured("vary_l1b").recorded;
  REQUIRE(measured.size() == 8);
  Workload workload = runs.run("vary_l1b").workload;
  workload.steps.resize(4);  // each length once, and 1536 twice
  workload.recorded.resize(4);
  workload.cycle = 4;
  hold(workload, lengths_of(workload, measured.size()), measured);
}

TEST_CASE("from the recording of one length against another process, whose lengths differ", "[slow]") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  ReferenceRuns runs(*folder);
  if (!runs.has("vary_l1b") || !runs.has("l1b_implicit")) FORESHARD_SKIP("no vary_l1b or l1b_implicit");
  const auto measured = runs.measured("vary_l1b").recorded;
  hold(runs.run("l1b_implicit").workload, lengths_of(runs.run("vary_l1b").workload, measured.size()), measured);
}

}  // namespace
}  // namespace foreshard::reference
