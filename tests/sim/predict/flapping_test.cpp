// What a link that flaps costs: of steps by hand, and of a plan.
#include "sim/predict/flapping.hpp"

#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/sim/predict/llama_on_nodes.hpp"

namespace foreshard::sim {
namespace {

constexpr std::int64_t kMs = 1'000'000;

FlappingRequest request_of(std::int64_t down_ms, std::int64_t period_ms, double left = 0) {
  FlappingRequest out;
  out.links = {{FlappingLink::Kind::adapter, 1, 3, {down_ms * kMs}, {period_ms * kMs}, left}};
  out.trials = 10;
  return out;
}

FlappingTrial steps_of(std::initializer_list<std::int64_t> ms, std::int64_t begun_in_ms = 100) {
  FlappingTrial out{{}, {begun_in_ms * kMs}};
  for (const std::int64_t one : ms) out.steps.push_back({{one * kMs}, 1});
  return out;
}

Result<Prediction> flapping_plan(const FlappingRequest& flapping, std::uint32_t replicate = 1,
                                 const Differences& differences = {}) {
  test::PlannedLlama job = test::llama_on_nodes("h100", 2, replicate, 4);
  job.request.differences = differences;
  job.request.flapping = flapping;
  return job.plan();
}

}  // namespace

TEST_CASE("between the outages of a run lie steps as they are without") {
  // 1000 ms of run: four played steps of 450 ms, and 5.5 of 100 ms.
  const FlappingTimes times =
      flapping_times(request_of(50, 1000), {{100 * kMs}, {{0, {steps_of({150, 100, 100, 100})}}}}, 0);
  CHECK(times.steps == 4);
  CHECK(times.without_ms == 100);
  CHECK(times.step_ms.mean == Approx(1000 / 9.5));
  CHECK(times.outage_costs == Approx(50));
  CHECK(times.step_ms.median == 100);
  CHECK(times.step_ms.p95 == 150);  // one of 9.5: more than 5 %
  CHECK(times.step_ms.most == 150);
  // Of a run of 2 s the step with the outage is one of 19.5.
  CHECK(flapping_times(request_of(50, 1950), {{100 * kMs}, {{0, {steps_of({150})}}}}, 0).step_ms.p95 == 150);
  CHECK(flapping_times(request_of(50, 2050), {{100 * kMs}, {{0, {steps_of({150})}}}}, 0).step_ms.p95 == 100);
}

TEST_CASE("where outages follow closely all steps are played, and an anchor lengthens steps and no outage") {
  const FlappingSteps played{{100 * kMs}, {{std::nullopt, {steps_of({100, 150, 100}), steps_of({150, 100, 150})}}}};
  const FlappingTimes times = flapping_times(request_of(50, 250), played, 0);
  CHECK(times.step_ms.mean == 125);
  CHECK(times.step_ms.median == 100);
  CHECK(times.outage_costs == Approx(50));
  const FlappingTimes anchored = flapping_times(request_of(50, 250), played, 5);
  CHECK(anchored.without_ms == 105);
  CHECK(anchored.step_ms.mean == 130);
  CHECK(anchored.step_ms.most == 155);
}

TEST_CASE("of two links the outages of each are as often as it goes down, and what both share counts once") {
  FlappingRequest request = request_of(50, 1000);
  request.links.push_back(request.links[0]);
  request.links[1].period = {2000 * kMs};
  // In 2 s two outages of the first, one of the second: 150 and 150 ms, and 180 ms; the rest of 100 ms each.
  const FlappingSteps apart{{100 * kMs}, {{0, {steps_of({150})}}, {1, {steps_of({180})}}}};
  const FlappingTimes times = flapping_times(request, apart, 0);
  CHECK(times.trials == 2);
  CHECK(times.step_ms.mean == Approx(2000 / (3 + 15.2)));
  CHECK(times.outage_costs == Approx((50 + 50 + 80) / 3.0));
  CHECK(times.step_ms.most == 180);
  // Where the second's outage begins in the same step as one of the first's: that step is half of each.
  FlappingSteps shared{{100 * kMs}, {{0, {steps_of({150}), steps_of({230})}}, {1, {steps_of({230})}}}};
  shared.plays[0].trials[1].steps[0].outages = shared.plays[1].trials[0].steps[0].outages = 2;
  request.links[1].period = request.links[0].period;
  shared.plays[1].trials.push_back(steps_of({150}));
  // In a second one outage of each: half of them in a step with the other's, each half of which counts.
  CHECK(flapping_times(request, shared, 0).step_ms.mean ==
        Approx(1000 / (0.5 + 0.5 + 0.5 + (1000 - 75 - 75 - 115) / 100.0)));
  // One that follows closely, beside: between the outages of the first are steps as it has them.
  request.links[1].period = {200 * kMs};
  const FlappingSteps beside{{100 * kMs}, {{0, {steps_of({170})}}, {std::nullopt, {steps_of({100, 120})}}}};
  CHECK(flapping_times(request, beside, 0).step_ms.mean == Approx(1000 / (1 + 830 / 110.0)));
}

TEST_CASE("an outage falls into a longer step more often") {
  FlappingRequest request = request_of(50, 1000);
  request.links.push_back(request.links[0]);
  request.links[1].period = {200 * kMs};
  // Two outages in 2 s, three of four in a step of 300 ms that the second link has made of one of 100 ms.
  const FlappingSteps played{
      {100 * kMs}, {{0, {steps_of({150}, 100), steps_of({350}, 300)}}, {std::nullopt, {steps_of({100, 120})}}}};
  CHECK(flapping_times(request, played, 0).step_ms.mean == Approx(2000 / (2 + (2000 - 0.5 * 150 - 1.5 * 350) / 110)));
}

TEST_CASE("an outage of an adapter costs up to its time, the same in every run of one seed") {
  for (const std::uint32_t replicate : {1U, 2U})
    for (const auto& [down, period] : {std::pair{50, 60'000}, std::pair{50, 400}}) {
      CAPTURE(replicate, down, period);
      FlappingRequest request = request_of(down, period);
      const auto plan = flapping_plan(request, replicate);
      REQUIRE(plan);
      REQUIRE(plan->flapping);
      const FlappingTimes& times = *plan->flapping;
      CHECK(times.without_ms == Approx(plan->step_ms).epsilon(0.01));
      CHECK(times.outage_costs > 0);
      CHECK(times.outage_costs < 1.02 * down);
      CHECK(times.step_ms.least <= times.without_ms + 1e-9);
      CHECK(times.step_ms.most > times.without_ms);
      request.threads = 3;
      const auto again = flapping_plan(request, replicate);
      CHECK(again->flapping->step_ms.mean == times.step_ms.mean);
      CHECK(again->flapping->step_ms.p95 == times.step_ms.p95);
      request.seed = 1;
      CHECK(flapping_plan(request, replicate)->flapping->step_ms.mean != times.step_ms.mean);
      CHECK(flapping_plan(request, replicate)->flapping->step_ms.mean == Approx(times.step_ms.mean).epsilon(0.1));
    }
}

TEST_CASE("what is left of an adapter costs less, and a slow GPU beside it stays one") {
  const auto down = flapping_plan(request_of(50, 60'000)), half = flapping_plan(request_of(50, 60'000, 0.5));
  CHECK(half->flapping->outage_costs < down->flapping->outage_costs);
  Differences slow;
  slow.ranks.push_back({.rank = 5, .kernels = 1.5});
  const auto both = flapping_plan(request_of(50, 60'000), 1, slow);
  REQUIRE(both);
  CHECK(both->flapping->without_ms > 1.2 * down->flapping->without_ms);
  CHECK(both->flapping->outage_costs > 0);
}

TEST_CASE("two adapters that flap cost what each does where their outages lie far apart, and the same in every run") {
  const auto with = [](std::vector<FlappingLink> links, unsigned threads = 1) {
    FlappingRequest request = request_of(50, 60'000);
    request.links = std::move(links);
    request.threads = threads;
    const auto plan = flapping_plan(request);
    REQUIRE(plan);
    return *plan->flapping;
  };
  const FlappingLink one = request_of(50, 60'000).links[0];
  FlappingLink other = one, often = one;
  other.place = 0;
  other.adapter = often.adapter = 5;
  often.period = {400 * kMs};
  const FlappingTimes both = with({one, other});
  CHECK(both.trials == 20);
  CHECK(both.outage_costs == Approx((with({one}).outage_costs + with({other}).outage_costs) / 2).epsilon(0.02));
  CHECK(with({one, other}, 3).step_ms.mean == both.step_ms.mean);
  // Beside one that is down for an eighth of the time a rare outage changes the mean by little.
  const FlappingTimes mixed = with({one, often});
  CHECK(mixed.step_ms.mean == Approx(with({often}).step_ms.mean).epsilon(0.02));
  CHECK(mixed.without_ms == Approx(both.without_ms).epsilon(0.001));
  // Both down often: longer than one alone, and no longer than both one after the other.
  FlappingLink more = often;
  more.place = 0;
  const double alone = with({often}).step_ms.mean - both.without_ms;
  const double together = with({often, more}).step_ms.mean - both.without_ms;
  CHECK(together > 1.2 * alone);
  CHECK(together < 2.8 * alone);
}

TEST_CASE("of links that end a job the one does that ends it first") {
  const auto down = [](std::int64_t down_ms, std::int64_t period_ms, double left = 0) {
    return request_of(down_ms, period_ms, left).links[0];
  };
  CHECK_FALSE(job_end({down(200, 2000), down(40'000, 60'000, 0.5)}, 100, 16));
  const auto end = job_end({down(40'000, 600'000), down(200, 2000), down(31'000, 100'000)}, 100, 16);
  REQUIRE(end);
  CHECK(end->link == down(31'000, 100'000));
  CHECK(end->within->ms() == Approx(69'000 + 100 + 30'064.771));
}

TEST_CASE("a job that ends by it is not valid, and what cannot be played is refused") {
  const auto ends = flapping_plan(request_of(31'000, 600'000));
  REQUIRE(ends);
  REQUIRE(ends->link_ends_job());
  CHECK_FALSE(ends->valid);
  // It begins with the link up: 569 s until the outage, a step until a collective meets it, and what NCCL tries.
  const double most = ends->step_ms / 1e3 + 30.064771;
  CHECK(ends->flapping->job_end->within->ms() / 1e3 == Approx(569 + most));
  CHECK(ends->flapping->job_end->gpu_seconds == Approx(16 * most));
  // Down for hardly longer than NCCL tries, it may be up again before a collective that began late has given up.
  CHECK_FALSE(flapping_plan(request_of(30'065, 600'000))->flapping->job_end->within);
  CHECK(ends->not_valid.front().find("adapter 1.3") != std::string::npos);
  CHECK_FALSE(flapping_plan(request_of(60'000, 600'000, 0.5)));  // hundreds of steps
  FlappingRequest other = request_of(50, 400);
  other.links[0].place = 2;
  CHECK(flapping_plan(other).error().what.find("no adapter 2.3") != std::string::npos);
}

}  // namespace foreshard::sim
