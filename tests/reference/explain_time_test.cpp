// The time of recordings explained, and of plans from them: the parts add up to the nanosecond in each.
//
// The repository's samples always; with FORESHARD_TRUTH every run of the reference recordings.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/explain_time/time_explanation.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/core/explain_time/time_parts.hpp"
#include "tests/truth_folder.hpp"
#include "traces/import/import.hpp"

namespace foreshard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSnapshot = ".pickle.xz";

/// Every snapshot of a folder without its suffix.
std::vector<std::string> recordings(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const std::string path = entry.path().string(); path.ends_with(kSnapshot))
      found.push_back(path.substr(0, path.size() - kSnapshot.size()));
  std::sort(found.begin(), found.end());
  return found;
}

/// With the traces of all ranks that lie there.
traces::Imported import_stem(const std::string& stem) {
  traces::ImportRequest request;
  request.snapshot = stem + std::string(kSnapshot);
  if (fs::exists(stem + ".about.json")) request.about = stem + ".about.json";
  if (fs::exists(stem + ".trace.json.xz")) request.trace = stem + ".trace.json.xz";
  for (int rank = 0;; ++rank) {
    const std::string file = stem + ".rank" + std::to_string(rank) + ".trace.json.xz";
    if (!fs::exists(file)) break;
    if (rank == 0)
      request.trace = file;
    else
      request.rank_traces.push_back(file);
  }
  auto imported = traces::import_recording(request);
  INFO((imported ? "" : imported.error().text()));
  REQUIRE(imported);
  return std::move(*imported);
}

/// Every step of the run; how many there were.
std::size_t check_steps(const Run& run) {
  std::size_t steps = 0;
  for (const StepRecord& step : run.steps) {
    if (!step.device_end) continue;
    const auto e = explain_time(run, step.index);
    REQUIRE(e);
    CHECK(test::time_parts_fault(run, *e) == "");
    ++steps;
  }
  return steps;
}

void check_recordings(const std::string& folder) {
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  std::size_t recorded = 0, planned = 0;
  for (const std::string& stem : recordings(folder)) {
    INFO(stem);
    const traces::Imported imported = import_stem(stem);
    recorded += check_steps(imported.run);
    if (!imported.workload) continue;
    const auto p = sim::predict(*imported.workload, *machine, {imported.run.settings, {}, 4});
    if (!p || !p->has_time) continue;
    planned += check_steps(p->run);
    const auto e = explain_time(p->run);
    REQUIRE(e);
    for (const IdlePart& part : e->parts) CHECK(part.cause != IdleCause::late_rank);  // one rank stands for all
    if (p->cycle > 1) continue;  // the plan's numbers are the mean of several steps
    CHECK(e->length().ms() == Approx(p->step_ms).epsilon(1e-9));
    CHECK(e->compute.ms() == Approx(p->compute_ms).epsilon(1e-9));
    CHECK(e->exposed_communication.ms() == Approx(p->exposed_communication_ms).epsilon(1e-9));
  }
  CHECK(recorded > 0);
  CHECK(planned > 0);
}

TEST_CASE("the parts of the samples' steps add up", "[explain_time]") {
  check_recordings("traces/samples");
}

TEST_CASE("the parts of every reference run's steps add up", "[explain_time]") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  check_recordings(*folder);
}

/// cli/reports/time_answer.cpp, kSlowed: a profiled step is one without the profiler, or clearly not.
TEST_CASE("no reference run's profiler slows its step by about five in a hundred", "[explain_time]") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  std::size_t alike = 0, slowed = 0;
  for (const std::string& stem : recordings(*folder)) {
    const Run run = import_stem(stem).run;
    const auto e = explain_time(run);
    if (!e || !run.measured || run.measured->cycle > 1 || run.measured->steady_ms() <= 0) continue;
    const double times = e->length().ms() / run.measured->steady_ms();
    INFO(stem << " " << times);
    CHECK((times < 1.045 || times > 1.10));
    ++(times < 1.05 ? alike : slowed);
  }
  CHECK(alike > 0);
  CHECK(slowed > 0);
}

/// Of all eight ranks, the fifth slowed down on purpose.
TEST_CASE("the slow rank of w8_l1b_slow is what the others' steps lose their time to", "[explain_time]") {
  const auto folder = test::truth_folder("runs");
  if (!folder || !fs::exists(*folder + "/w8_l1b_slow.rank0.trace.json.xz")) FORESHARD_SKIP(test::kNoTruth);
  const traces::Imported imported = import_stem(*folder + "/w8_l1b_slow");
  const auto e = explain_time(imported.run);
  REQUIRE(e);
  Nanoseconds rank5, waiting;
  for (const IdlePart& part : e->parts) {
    if (part.cause != IdleCause::late_rank) continue;
    waiting += part.length();
    if (part.rank == 5U) rank5 += part.length();
  }
  CHECK(rank5.ms() > 0.9 * waiting.ms());
  CHECK(waiting.ms() > 0.5 * e->idle().ms());  // 31 of 51 ms
}

}  // namespace
}  // namespace foreshard
