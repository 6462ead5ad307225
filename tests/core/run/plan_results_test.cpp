// What a plan left in its run says of the run's steps.
#include "core/run/plan_results.hpp"

#include "core/run/steady_step.hpp"
#include "tests/catch.hpp"

using namespace foreshard;

namespace {

Run planned() {
  Run run;
  run.info.kind = RunKind::planned;
  for (const std::int32_t index : {0, 1}) {
    StepRecord step;
    step.recording = Recording::run;
    step.index = index;
    step.device_end = Nanoseconds::from_us(100 * (index + 1));
    run.steps.push_back(step);
  }
  return run;
}

}  // namespace

TEST_CASE("of a plan that says that it has no step time no step is timed", "[plan_results]") {
  Run run = planned();
  run.results = {{"step_ms", "12.5"}, {"step_time_unknown", "null"}};
  CHECK(step_time_unknown(run).empty());
  REQUIRE(timed_step(run) != nullptr);
  run.results = {{"step_ms", "null"}, {"step_time_unknown", "\"the CPU's optimizer was not recorded\""}};
  CHECK(step_time_unknown(run) == "the CPU's optimizer was not recorded");
  CHECK(timed_step(run) == nullptr);
  run.results.erase("step_time_unknown");  // as older plans have it
  CHECK(step_time_unknown(run) == "the source has no times");
  run.results["out_of_memory"] = "true";
  CHECK(step_time_unknown(run).empty());
  run.info.kind = RunKind::imported;
  CHECK(timed_step(run) != nullptr);
}

TEST_CASE("a moment is a time, or the number of an allocator event", "[plan_results]") {
  CHECK(moment_words(Nanoseconds::from_us(12'345), 1, false) == "12.3 ms");
  CHECK(moment_words(Nanoseconds{4120}, 1, true) == "event 4,120");
}

TEST_CASE("steps from the one on in which a job hangs never end", "[plan_results]") {
  Run run = planned();
  run.results = {{"deadlock", "\"rank 1 issues nothing\""}, {"ends", R"(["hangs: rank 1 issues nothing"])"}};
  run.steps.back().device_end.reset();
  CHECK_FALSE(never_ends(run, run.steps.front()));
  CHECK(never_ends(run, run.steps.back()));
  CHECK(no_device_ops(run, "no ops", "a.db").hint.starts_with("the job ends before"));
  CHECK(no_device_ops(Run(), "no ops", "a.db").hint.starts_with("import the run"));
  run.results.clear();
  CHECK_FALSE(never_ends(run, run.steps.back()));
}
