// A step's number in words: its place in its recording, whose name stands by where there are two, and its own.
#include "core/run/step_title.hpp"

#include <algorithm>
#include <ctime>
#include <string>

#include "tests/catch.hpp"

namespace foreshard {
namespace {

TEST_CASE("a step is called by its place, its recording and the recording's own name") {
  Run run;
  run.info.kind = RunKind::imported;
  const auto step = [&](Recording recording, std::int32_t index, std::int64_t start, std::int64_t end) {
    StepRecord record;
    record.recording = recording;
    record.index = index;
    record.start = {start};
    record.end = {end};
    run.steps.push_back(record);
  };
  step(Recording::trace, 0, 100, 200);
  step(Recording::trace, 1, 200, 300);
  CHECK(step_title(run, Recording::trace, 1) == "step 1");
  const auto range = [&](const char* name, std::int64_t start, std::int64_t end) {
    run.host_ops.push_back({HostOpRecord::Kind::annotation, 0, run.labels.intern(name), {start}, {end}, 0});
  };
  range("ProfilerStep#3", 100, 199);
  range("ProfilerStep#4", 199, 310);
  range("## forward ##", 200, 250);
  CHECK(step_title(run, Recording::trace, 0) == "step 0 (ProfilerStep#3)");
  CHECK(step_title(run, Recording::trace, 1) == "step 1 (ProfilerStep#4)");
  step(Recording::snapshot, 0, 5, 50);
  run.annotations.push_back({run.labels.intern("ProfilerStep#1"), {0}, {60}});
  CHECK(step_title(run, Recording::trace, 1) == "step 1 of the trace (ProfilerStep#4)");
  CHECK(step_title(run, Recording::snapshot, 0) == "step 0 of the snapshot (ProfilerStep#1)");
  CHECK(step_title(run, Recording::trace, 7) == "step 7 of the trace");
}

TEST_CASE("the titles of all steps take time linear in the run") {
  const auto name_all = [](std::int32_t count) {
    Run run;
    for (std::int32_t i = 0; i < count; ++i) {
      const std::string name = "ProfilerStep#" + std::to_string(i + 5);
      run.host_ops.push_back(
          {HostOpRecord::Kind::annotation, 0, run.labels.intern(name), {100LL * i}, {100LL * i + 100}, 0});
      StepRecord step;
      step.recording = Recording::trace;
      step.index = i;
      step.start = {100LL * i + 10};
      run.steps.push_back(step);
    }
    const std::clock_t begun = std::clock();
    const StepTitles titles(run);
    for (const StepRecord& step : run.steps)
      REQUIRE(titles.title(step.recording, step.index) ==
              "step " + std::to_string(step.index) + " (ProfilerStep#" + std::to_string(step.index + 5) + ")");
    return static_cast<double>(std::clock() - begun);
  };
  const double few = std::min({name_all(1'000), name_all(1'000), name_all(1'000)});
  CHECK(name_all(16'000) < 64 * few);  // of 16 times the steps; step by step it would be 256 times
}

}  // namespace
}  // namespace foreshard
