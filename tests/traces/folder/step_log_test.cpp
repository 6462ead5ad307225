// Step times of training logs: torchtitan's lines, coloured ones, of several ranks, and what is no time.
#include "traces/folder/step_log.hpp"

#include "tests/catch.hpp"

using namespace foreshard::traces;

namespace {

constexpr const char* kTitanLines =
    "[titan] 2026-11-20 10:00:00,000 - root - INFO - Training starts at step 1\n"
    "[rank0]:[titan] 2026-11-20 10:00:09,000 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: 12.2578  "
    "\x1b[38;2;180;60;0mgrad_norm:  3.1  \x1b[36mmemory: 40.12GiB(42.24%)  \x1b[34mtps: 820  \x1b[36mtflops: "
    "8.0\x1b[0m\n"
    "[rank1]:step:  1  loss: 12.3  tps: 810\n"
    "[rank0]:step: 10  loss:  7.8  grad_norm:  1.2  memory: 40.1GiB(42.2%)  tps: 5,000  tflops: 80.1  mfu: 8.1%\n"
    "[rank0]:validate step: 10  loss:  7.8  memory: 40.1GiB(42.2%)  tps: 9,000\n"
    "[rank0]:step: 20  loss:  7.1  tps: 8,192\n"
    "[rank0]:step: 30  loss:  7.0  tps: 4,096\n";

}  // namespace

TEST_CASE("torchtitan's lines have steps and tokens a second") {
  const auto steps = logged_steps(kTitanLines);
  REQUIRE(steps.size() == 4);
  CHECK(steps[0].step == 1);
  CHECK(steps[0].tokens_per_second == 820);
  CHECK(steps[1].tokens_per_second == 5000);
  CHECK(steps[3].step == 30);
  const auto times = times_of(steps, {.tokens = 8192});
  REQUIRE(times);
  REQUIRE(times->step_ms.size() == 3);  // the first step's line is left out
  CHECK(times->step_ms[1] == Approx(1000));
  CHECK(times->step_ms[2] == Approx(2000));
  CHECK(times->from == "3 lines of steps 10 to 30, tokens a second at 8192 tokens a step and device");
}

TEST_CASE("without the tokens of a step only end_to_end(s) is a time") {
  CHECK_FALSE(times_of(logged_steps(kTitanLines), {}));
  const auto times = times_of(logged_steps("step: 1 end_to_end(s): 9.5\n"
                                           "{\"step\": 2, \"time_metrics/end_to_end(s)\": 0.25}\n"),
                              {});
  REQUIRE(times);
  CHECK(times->step_ms == std::vector<double>{250});
}

TEST_CASE("lines over profiled steps are left out where others are left") {
  std::string text;
  for (int step = 1; step <= 20; ++step) text += "step: " + std::to_string(step) + " end_to_end(s): 0.5\n";
  const auto steps = logged_steps(text);
  const auto times = times_of(steps, {.tokens = 0, .profile_freq = 10, .profiled_steps = 4});
  REQUIRE(times);
  CHECK(times->step_ms.size() == 5 + 6);  // 2 to 6 and 11 to 16
  CHECK(times->from == "11 lines of steps 2 to 16, end_to_end(s)");
  const std::vector<LoggedStep> coarse{steps[0], steps[9], steps[19]};
  CHECK(times_of(coarse, {.tokens = 0, .profile_freq = 10, .profiled_steps = 4})->from ==
        "2 lines, all over profiled steps, end_to_end(s)");
}

TEST_CASE("what is no step or no time is passed over") {
  CHECK(logged_steps("").empty());
  CHECK(logged_steps("step: x tps: 5\nstep: 3 tps: 0\nstep: 4\nstep: 5 tps: -1\nstep: 1.5 tps: 7\n").empty());
  CHECK(logged_steps("step: 6 tps: 1e300\nstep: 7 end_to_end(s): 1e9\n").empty());
  CHECK(logged_steps("step: 8 tps: \x1b[3").empty());
  CHECK(logged_steps(std::string(10'000, ' ') + "step: 9 tps: 5").empty());
  CHECK_FALSE(times_of({}, {.tokens = 1}));
}
