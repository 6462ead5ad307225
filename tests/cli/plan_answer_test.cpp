// The first lines of plan's answer.
#include "cli/reports/plan_answer.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::cli;

namespace {

sim::Prediction fits() {
  sim::Prediction p;
  p.has_time = true;
  p.step_ms = 200;
  p.compute_ms = 150;
  p.exposed_communication_ms = 40;
  p.idle_ms = 10;
  p.interval.low_ms = 194;
  p.interval.high_ms = 207.26;
  p.memory_capacity = 80 * kGiB;
  p.peaks.reserved = 60 * kGiB;
  p.run.settings.batch = 2;
  p.run.settings.seq = 1000;
  p.work = 2000;
  return p;
}

const Settings kSource = fits().run.settings;

}  // namespace

TEST_CASE("a rank that makes the step longer binds it, also where the host does") {
  sim::Prediction p = fits();
  p.run.settings.gpus = 8;
  p.step_alike_ms = 180;
  p.rank_costs = {{"rank 5's GPU", {5}, 20, 20}};
  CHECK(bound_name(p) == "ranks");
  CHECK(bound_word(p) == "20.00 ms (11.1 %) longer because of rank 5's GPU");
  p.host_bound = true;
  p.gpu_step_ms = 190;
  CHECK(bound_name(p) == "ranks");
  p.rank_costs[0] = {"adapter 0.1", {}, 20, 20};
  CHECK(bound_name(p) == "host");
  CHECK(bound_word(p) == "host-bound");
  p.host_bound = false;
  p.rank_costs[0] = {"rank 5's GPU", {5}, 3.9, 3.9};  // less than two hundredths of the step
  p.step_alike_ms = p.step_ms - 3.9;
  CHECK(bound_name(p) == "gpu");
}

TEST_CASE("what fits says what is left, how fast it is and what the step consists of") {
  const auto lines = answer_lines(fits(), {&kSource}, plan_time(fits()));
  REQUIRE(lines.size() == 3);
  CHECK(lines[2] ==
        "of 2 × 1000 tokens a GPU, 1 GPU, param_dtype none (the parameters' own), reduce_dtype none (as computed); "
        "settings: those of the source");
  sim::Prediction other = fits();
  other.run.settings.forward_prefetch = 2;
  CHECK(answer_lines(other, {&kSource}, plan_time(other))[2].ends_with("; changed: forward_prefetch implicit -> 2"));
  other.utilization.value = 0.382;
  CHECK(answer_lines(other, {&other.run.settings}, plan_time(other))[1].find("tokens/s/GPU, MFU 38 %; GPU-bound") !=
        std::string::npos);
  CHECK(lines[0] == "fits: 60 GiB of 80 GiB reserved at the peak, 20 GiB (25 %) left");
  CHECK(
      lines[1] ==
      "200.00 ms a step (194.0 to 207.3), 10000 tokens/s/GPU; GPU-bound: 75 % compute, 20 % exposed communication, 5 % "
      "neither");
  sim::Prediction retried = fits();
  retried.num_alloc_retries = 2;
  CHECK(answer_lines(retried, {&retried.run.settings}, plan_time(retried))[0].ends_with(
      "; only with 2 retries in which the allocator gave cached segments back and asked again, none of them in the "
      "steady step"));
  retried.step_num_alloc_retries = 1;
  CHECK(answer_lines(retried, {&retried.run.settings}, plan_time(retried))[0].ends_with(
      "again, 1 of them in the steady step"));
  sim::Prediction untimed = fits();
  untimed.has_time = false;
  CHECK(answer_lines(untimed, {&untimed.run.settings}, plan_time(untimed))[1] ==
        "step time not known: the source has no times (no profiler trace of eager steps)");
}

TEST_CASE("where recorded steps differ, the largest decides what fits, and the time is a mean") {
  sim::Prediction p = fits();
  p.cycle = 4;
  p.steps.resize(2);
  p.steps[0].peaks.reserved = 70 * kGiB;
  p.steps[1].peaks.reserved = 60 * kGiB;
  const auto lines = answer_lines(p, {&p.run.settings}, plan_time(p));
  CHECK(lines[0] == "fits: 70 GiB of 80 GiB reserved at the peak, 10 GiB (12 %) left");
  CHECK(lines[1].starts_with("200.00 ms a step, the mean of 4, (194"));
}

TEST_CASE("what is not valid says why, behind the answer") {
  sim::Prediction p = fits();
  p.not_valid = {"one", "two"};
  const auto lines = answer_lines(p, {&p.run.settings}, plan_time(p));
  REQUIRE(lines.size() == 5);
  CHECK(lines[3] == "not valid: one");
  CHECK(lines[4] == "not valid: two");
}

TEST_CASE("what does not fit says where and by how much") {
  sim::Prediction p = fits();
  p.has_time = false;
  p.out_of_memory = OutOfMemory{.requested = 3 * kGiB, .tried = 3 * kGiB, .allowed = 0, .device_free = kGiB};
  p.run.phases.push_back({});
  p.run.phases.back().name = "backward";
  BlockRecord& block = p.run.blocks.emplace_back();
  block.step = 1;
  block.module = p.run.labels.intern("layers.3");
  block.op = p.run.labels.intern("aten::mm");
  CHECK(answer_lines(p, {&p.run.settings}, plan_time(p))[0] ==
        "does not fit: out of memory in step 1, backward, layers.3 (aten::mm): 3 GiB asked of the GPU, 1 GiB free of "
        "80 GiB");
  CHECK(free_at_peak(p) == 0);
  const FailedPlace place = failed_place(p.run);
  CHECK(place.of == "layers.3");
  CHECK(failed_place(Run{}).step == -1);
  CHECK(text_of(failed_place(Run{})) == "set-up");
}
