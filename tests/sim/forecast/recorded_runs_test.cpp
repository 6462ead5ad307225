// Forecasts from the model alone against recorded training runs of 300 steps (data/*.csv): reserved memory behind every
// step, and every retry at its step.
#include <fstream>

#include "sim/forecast/forecast.hpp"
#include "sim/predict/process_memory_options.hpp"
#include "tests/catch.hpp"
#include "tests/sim/forecast/generated_model.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using foreshard::sim::test::GeneratedModel;
using foreshard::sim::test::machine;

namespace {

struct RecordedRun {
  std::optional<Bytes> limit;
  std::string lengths;  // as parse_length_list reads them
  std::vector<Bytes> reserved;
  std::vector<std::int32_t> retries;  // so far
};

RecordedRun read(const std::string& name) {
  std::ifstream file("tests/sim/forecast/data/" + name + ".csv");
  REQUIRE(file);
  RecordedRun run;
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kLimit = "limit_bytes ";
    if (const auto at = line.find(kLimit); at != std::string::npos)
      if (const Bytes limit = std::stoull(line.substr(at + kLimit.size())); limit > 0) run.limit = limit;
    if (line.starts_with('#')) continue;
    const auto first = line.find(',');
    const auto second = line.find(',', first + 1);
    run.lengths += line.substr(0, first) + "\n";
    run.reserved.push_back(std::stoull(line.substr(first + 1, second - first - 1)) * kMiB);
    run.retries.push_back(std::stoi(line.substr(second + 1)));
  }
  return run;
}

Settings settings_of_runs() {
  Settings settings;
  settings.gpus = 2;
  settings.batch = 4;
  settings.seq = 2048;
  settings.param_dtype = DType::bfloat16;
  settings.reduce_dtype = DType::float32;
  return settings;
}

struct Held {
  std::size_t equal = 0;    ///< steps up to the first whose reserved memory differs
  std::size_t retries = 0;  ///< up to the first whose retries do
  double worst = 0;         ///< difference of reserved memory, relative
};

/// `workload`: of the programs; a process begins as its first step does.
Held hold(const RecordedRun& run, ProgramSource& programs, const Workload& workload,
          const std::string& alloc_conf = {}) {
  ForecastRequest request{parse_length_list(run.lengths, "lengths").value(), run.reserved.size(), {0}, {}};
  request.process.options.config = parse_alloc_conf(alloc_conf).value();
  request.process.options.memory = process_memory_options(workload, workload.settings, machine(), {}, true).memory;
  request.process.options.limit = run.limit;
  request.process.options.as_recorded = alloc_conf.empty();
  request.threads = 2;
  const auto seeds = run_forecast(programs, request);
  REQUIRE(seeds);
  const std::vector<StepUse>& steps = seeds->front().steps;
  REQUIRE(steps.size() == run.reserved.size());
  Held held;
  std::int32_t retries = 0;
  for (; held.equal < steps.size() && steps[held.equal].reserved == run.reserved[held.equal]; ++held.equal) continue;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const double recorded = static_cast<double>(run.reserved[i]);
    held.worst = std::max(held.worst, std::abs(static_cast<double>(steps[i].reserved) - recorded) / recorded);
  }
  while (held.retries < steps.size() && (retries += steps[held.retries].retries) == run.retries[held.retries])
    ++held.retries;
  return held;
}

/// From the model, which has a program of every length.
Held hold_model(const RecordedRun& run, const std::string& alloc_conf = {}) {
  GeneratedModel source("llama-1b", machine());
  const Settings settings = settings_of_runs();
  return hold(run, *model_programs(source, settings), *source.at(settings).value(), alloc_conf);
}

/// From one step's requests, all at `length`, as a recording of that length alone has them.
Held hold_one_length(const RecordedRun& run, std::uint32_t length) {
  GeneratedModel source("llama-1b", machine());
  Settings settings = settings_of_runs();
  settings.seq = length;
  const auto workload = source.at(settings).value();
  auto programs = recorded_programs(*workload, workload->settings, BetweenOrders::refuse);
  REQUIRE(programs);
  return hold(run, **programs, *workload);
}

}  // namespace

TEST_CASE("four recorded seeds of one histogram: reserved memory behind every step", "[forecast][recorded]") {
  for (const char* name : {"s1", "s2", "s3", "s4"}) {
    INFO(name);
    const Held held = hold_model(read(name));
    CHECK(held.equal == 300);
    CHECK(held.retries == 300);
  }
}

TEST_CASE("a recorded run with expandable segments", "[forecast][recorded]") {
  CHECK(hold_model(read("expandable"), "expandable_segments:True").equal == 200);
}

TEST_CASE("two recorded runs under a limit: every retry at its step", "[forecast][recorded]") {
  const Held loose = hold_model(read("tight50"));
  CHECK(loose.equal == 300);
  CHECK(loose.retries == 300);
  // Behind 43 retries the driver's addresses are others than the address model's: equal free blocks tie another way.
  // With the recorded addresses all 300 are equal (docs/forecast.md).
  const Held tight = hold_model(read("tight15"));
  CHECK(tight.equal == 290);
  CHECK(tight.retries == 300);
}

TEST_CASE("the same from the steps of one length", "[forecast][recorded]") {
  for (const char* name : {"s1", "s2", "s3", "s4", "tight50"})
    for (const std::uint32_t length : {512u, 1024u, 2048u}) {
      INFO(name << " from " << length);
      const Held held = hold_one_length(read(name), length);
      CHECK(held.worst < 1e-4);  // where the program orders small blocks by a length that it does not know
      CHECK(held.retries == 300);
      if (length == 2048) CHECK(held.equal == 300);
    }
  const Held tight = hold_one_length(read("tight15"), 2048);
  CHECK(tight.equal == 290);  // as from the model
  CHECK(tight.retries == 300);
}
