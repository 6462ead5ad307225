// A step's number in words: its place in its recording, whose name stands by where there are two, and its own.
#include "core/run/step_title.hpp"

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

}  // namespace
}  // namespace foreshard
