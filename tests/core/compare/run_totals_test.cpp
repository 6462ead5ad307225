// Which of a run's numbers stands for its step time, and which step for its phases.
#include "core/compare/run_totals.hpp"

#include "core/run/plan_results.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

StepRecord step(Recording recording, std::int32_t index, std::int64_t begin_ms, std::int64_t end_ms) {
  StepRecord out;
  out.recording = recording;
  out.index = index;
  out.start = {begin_ms * 1'000'000};
  out.end = {end_ms * 1'000'000};
  return out;
}

TEST_CASE("a step time is the predicted one, else measured without warm-up, else the profiled step's") {
  Run run;
  CHECK_FALSE(step_time(run));
  run.steps = {step(Recording::snapshot, 0, 0, 50), step(Recording::trace, 0, 0, 10),
               step(Recording::trace, 1, 10, 25)};
  REQUIRE(step_time(run));
  CHECK(step_time(run)->ms == Approx(15));
  CHECK(step_time(run)->source == "profiled");
  run.measured.emplace();
  run.measured->step_ms = {90, 80, 11, 13, 12};
  CHECK(step_time(run)->ms == Approx(12));
  CHECK(step_time(run)->source == "measured");
  run.measured->step_ms = {90, 80};  // warm-up alone
  CHECK(step_time(run)->source == "profiled");
  run.measured->step_ms = {90, 80, 11, 13};
  CHECK(step_time(run)->ms == Approx(12));
  run.results["step_ms"] = "null";  // a plan without times
  CHECK(step_time(run)->source == "measured");
  run.results["step_ms"] = "9.25e1";
  CHECK(step_time(run)->ms == 92.5);
  CHECK(step_time(run)->source == "predicted");
}

TEST_CASE("the step of a plan is the last that another follows, of an import the last; memory is the last step's") {
  CHECK(steady_step(0) == 0);
  CHECK(steady_step(1) == 0);
  CHECK(steady_step(3) == 2);
  CHECK(steady_step(4) == 2);
  CHECK(steady_step(6) == 4);
  Run run;
  CHECK(timed_step(run) == nullptr);
  for (std::int32_t i = 0; i < 4; ++i) run.steps.push_back(step(Recording::run, i, i * 10, i * 10 + 10));
  CHECK(timed_step(run)->index == 2);  // no end on the device is known: all count
  for (StepRecord& one : run.steps) one.device_end = one.end;
  CHECK(timed_step(run)->index == 2);
  CHECK(step_before(run, *timed_step(run))->index == 1);
  CHECK(timed_step(run, 3)->index == 3);
  CHECK(memory_step(run)->index == 3);
  run.steps.back().device_end.reset();  // it did not come to its end
  CHECK(timed_step(run)->index == 2);
  for (StepRecord& one : run.steps) one.recording = Recording::trace;
  CHECK(timed_step(run)->index == 2);
  run.steps.back().device_end = run.steps.back().end;
  CHECK(timed_step(run)->index == 3);
  CHECK_FALSE(memory_step(run));
}

TEST_CASE("where steps differ, memory is of the step whose peak is the run's") {
  Run run;
  const Bytes allocated[] = {30, 70, 90, 90, 60};
  const Bytes reserved[] = {80, 80, 95, 95, 95};
  for (std::int32_t i = 0; i < 5; ++i) {
    run.steps.push_back(step(Recording::run, i, i * 10, i * 10 + 10));
    run.steps.back().peaks.allocated = allocated[i];
    run.steps.back().peaks.reserved = reserved[i];
  }
  CHECK(memory_step(run)->index == 4);
  run.info.kind = RunKind::planned;
  run.results["steps"] = R"([{"batch":1,"seq":3},{"batch":1,"seq":7},{"batch":1,"seq":9},{"batch":1,"seq":9},null])";
  CHECK(memory_step(run)->index == 2);
  CHECK(memory_step(run, 4)->index == 4);
}

TEST_CASE("a plan that ran out of memory has no timed step, and its memory is that until then") {
  Run run;
  for (std::int32_t i = 0; i < 3; ++i) {
    run.steps.push_back(step(Recording::run, i, i * 10, i * 10 + 10));
    run.steps.back().device_end = run.steps.back().end;
  }
  run.phases.push_back({0, Recording::run, "forward", {0}, {5}});
  run.allocator.push_back({AllocatorAction::oom, 0, 1, kComputeStream, {35'000'000}, {}});
  run.results = {{"out_of_memory", "true"}, {"step_ms", "null"}, {"peak_reserved_bytes", "4096"}};
  CHECK(plan_failure(run) == "ran out of memory");
  run.settings.gpus = 8;
  run.results["out_of_memory_rank"] = "5";
  CHECK(plan_failure(run) == "ran out of memory on rank 5");
  run.results["out_of_memory_rank"] = "8";  // of a damaged store
  CHECK_FALSE(out_of_memory_rank(run));
  CHECK(timed_step(run) == nullptr);
  CHECK(timed_step(run, 1) == nullptr);
  CHECK_FALSE(step_time(run));
  CHECK(phases_ms(run).empty());
  REQUIRE(memory_step(run));
  CHECK(memory_step(run)->index == 3);
  CHECK(memory_step(run)->start == run.steps.back().end);
  CHECK(memory_step(run)->end == Nanoseconds{35'000'001});
  CHECK(memory_step(run)->peaks.reserved == 4096);
  CHECK(memory_step(run, 1)->index == 1);
  run.steps.clear();
  CHECK(memory_step(run)->index == 0);
  run.phases.clear();
  CHECK(memory_step(run)->index == -1);
  run.info.kind = RunKind::imported;  // a program that went on
  CHECK(plan_failure(run).empty());
  CHECK_FALSE(memory_step(run));
}

TEST_CASE("a plan that deadlocks has no timed step") {
  Run run;
  run.steps = {step(Recording::run, 0, 0, 10)};
  run.results = {{"out_of_memory", "false"}, {"deadlock", "null"}};
  CHECK(timed_step(run) != nullptr);
  run.results["deadlock"] = "\"rank 0 waits\"";
  CHECK(timed_step(run) == nullptr);
  CHECK(memory_step(run));
}

TEST_CASE("phases are summed over the last step of the recording that saw the device") {
  Run run;
  run.steps = {step(Recording::snapshot, 3, 0, 50), step(Recording::trace, 1, 0, 20)};
  const auto phase = [&](Recording recording, std::int32_t index, const char* name, std::int64_t ms) {
    run.phases.push_back({index, recording, name, {0}, {ms * 1'000'000}});
  };
  phase(Recording::trace, 1, "forward", 4);
  phase(Recording::trace, 1, "backward", 8);
  phase(Recording::trace, 1, "forward", 1);
  phase(Recording::trace, 0, "forward", 99);
  phase(Recording::snapshot, 3, "forward", 30);
  using Phases = std::vector<std::pair<std::string, double>>;
  CHECK(phases_ms(run) == Phases{{"forward", 5}, {"backward", 8}});
  CHECK(phases_ms(run, 3) == Phases{{"forward", 30}});  // the device did not see that step
  CHECK(phases_ms(run, 7).empty());
  REQUIRE(memory_step(run));
  CHECK(memory_step(run)->index == 3);
  CHECK_FALSE(memory_step(run, 1));
}

}  // namespace
}  // namespace foreshard
