// Plans of jobs whose groups meet behind the adapters: ranks that are all alike and ranks that hardly differ have one
// number, and where nothing can meet one rank's simulation is the plan.
#include <cmath>
#include <tuple>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/simulate.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

struct Wiring {
  std::uint32_t leaf = 0;
  double over = 1;
  std::uint32_t pod = 0;
  double pod_over = 1;
  std::uint32_t group = 0;  // of a dragonfly
};

struct WiredPlan {
  MachineProfile machine = *builtin_profile("h100");
  Workload workload;
  PredictRequest request;

  [[nodiscard]] Prediction predict() const { return sim::predict(workload, machine, request).value(); }
};

WiredPlan plan_on(const Wiring& fabric, std::uint32_t nodes, std::uint32_t replicate) {
  WiredPlan plan;
  Network& network = plan.machine.network;
  network.leaf_nodes = fabric.leaf;
  network.pod_nodes = fabric.pod;
  network.group_nodes = fabric.group;
  network.oversubscription = fabric.over;
  network.pod_oversubscription = fabric.pod_over;
  Settings settings;
  settings.gpus = 2;
  settings.nodes = nodes;
  settings.replicate = replicate;
  settings.batch = 4;
  settings.seq = 2048;
  settings.param_dtype = DType::bfloat16;
  plan.workload = generate(*preset("llama-tiny"), settings, plan.machine.host_calls, plan.machine.gpu(), true).value();
  plan.request.settings = plan.workload.settings;
  plan.request.host_scale.emplace();
  plan.request.host_scale->factor = 0.1;  // else a model so small is its host's step
  return plan;
}

/// Of one rank for all, whose groups share one busiest link.
double one_rank_ms(const WiredPlan& plan) {
  SimulationRequest request;
  request.steps.steps = plan.request.steps;
  request.steps.synchronized = 1;
  request.options.host_scale = plan.request.host_scale->factor;
  Run run;
  return simulate(plan.workload, plan.request.settings, plan.machine, request, run)->steady_step().ms();
}

bool close_to(double a, double b, double share) {
  return std::abs(a - b) <= share * b;
}

constexpr double kNegligible = 1e-6;

}  // namespace

TEST_CASE("the plan of alike ranks is the limit of plans whose ranks hardly differ") {
  const Wiring rail{.leaf = 4, .over = 4}, uneven{.leaf = 3, .over = 4},
      tree{.leaf = 2, .over = 2, .pod = 4, .pod_over = 2}, dragonfly{.over = 2, .group = 2};
  bool some_moved = false;
  for (const auto& [fabric, nodes, replicate] : {std::tuple{rail, 8U, 2U},
                                                 {rail, 8U, 4U},
                                                 {uneven, 8U, 2U},
                                                 {uneven, 9U, 3U},
                                                 {tree, 8U, 2U},
                                                 {tree, 8U, 4U},
                                                 {tree, 16U, 4U},
                                                 {dragonfly, 8U, 2U},
                                                 {dragonfly, 8U, 4U}}) {
    WiredPlan plan = plan_on(fabric, nodes, replicate);
    const Prediction alike = plan.predict();
    CAPTURE(fabric.leaf, fabric.pod, fabric.group, nodes, replicate, one_rank_ms(plan));
    CAPTURE(alike.step_ms, alike.gpu_step_ms, alike.exposed_communication_ms);
    CHECK(alike.ranks.empty());
    CHECK_FALSE(alike.stragglers);
    plan.request.differences.ranks = {{.rank = 5, .kernels = 1 + kNegligible}};
    const Prediction differ = plan.predict();
    CHECK(differ.ranks.size() > 1);
    CAPTURE(differ.step_ms, differ.gpu_step_ms, differ.exposed_communication_ms);
    CHECK(close_to(alike.step_ms, differ.step_ms, 1e-3));
    CHECK(close_to(alike.gpu_step_ms, differ.gpu_step_ms, 1e-3));
    CHECK(close_to(alike.exposed_communication_ms, differ.exposed_communication_ms, 5e-3));
    CHECK(alike.host_bound == differ.host_bound);
    CHECK(close_to(differ.step_alike_ms, alike.step_ms, 1e-9));
    some_moved |= !close_to(alike.step_ms, one_rank_ms(plan), 0.02);
  }
  CHECK(some_moved);  // else the test holds what one rank's simulation gives anyway
}

TEST_CASE("beside a slow adapter too the job whose ranks are alike is the plan without it") {
  WiredPlan plan = plan_on({.leaf = 4, .over = 4}, 8, 2);
  const double alike = plan.predict().step_ms;
  plan.request.differences.slow_adapters = {{.node = 1, .adapter = 0, .slowdown = 4}};
  const Prediction slow = plan.predict();
  CHECK(close_to(slow.step_alike_ms, alike, 1e-9));
  CHECK(slow.step_ms > alike);
}

TEST_CASE("where no two groups can meet, one rank's simulation is the plan, to the nanosecond") {
  for (const auto& [fabric, nodes, replicate] : {std::tuple{Wiring{}, 8U, 2U},               // one switch
                                                 {Wiring{.leaf = 4, .over = 1}, 8U, 2U},     // links that never fill
                                                 {Wiring{.leaf = 4, .over = 4}, 8U, 1U},     // one group
                                                 {Wiring{.leaf = 4, .over = 4}, 4U, 2U}}) {  // one leaf
    const WiredPlan plan = plan_on(fabric, nodes, replicate);
    CAPTURE(fabric.leaf, fabric.over, nodes, replicate);
    CHECK(plan.predict().step_ms == one_rank_ms(plan));
  }
}

TEST_CASE("memory that follows the GPU is of one rank's simulation, whatever meets") {
  WiredPlan plan = plan_on({.leaf = 4, .over = 4}, 8, 2);
  const Prediction stash = plan.predict();
  plan.request.settings.release = Release::record_stream;
  const Prediction recorded = plan.predict();
  CHECK(recorded.step_ms == one_rank_ms(plan));
  CHECK(recorded.step_ms != stash.step_ms);
}

TEST_CASE("peaks do not depend on how long collectives take") {
  WiredPlan plan = plan_on({.leaf = 4, .over = 4}, 8, 2);
  const Prediction played = plan.predict();
  plan.request.memory_only = true;
  const Prediction memory = plan.predict();
  CHECK(played.peaks.reserved == memory.peaks.reserved);
  CHECK(played.peaks.allocated == memory.peaks.allocated);
}

TEST_CASE("of accumulated microbatches too the step is the job's, and a free host's no longer") {
  WiredPlan plan = plan_on({.leaf = 4, .over = 4}, 8, 2);
  plan.request.settings.accumulate = 2;
  const Prediction p = plan.predict();
  CHECK(p.gpu_step_ms <= p.step_ms);
  CHECK(p.gpu_step_ms > 0.5 * p.step_ms);
}

TEST_CASE("another job costs what it takes of links that both use, and nothing where there are none") {
  // Nodes 4 and 5 of this job and 6 and 7 of the other one are in one leaf.
  WiredPlan plan = plan_on({.leaf = 4, .over = 4}, 6, 1);
  const double alone = plan.predict().step_ms;
  Settings other = plan.request.settings;
  plan.request.beside = BesideRequest{&plan.workload, other};
  const Prediction p = plan.predict();
  CHECK(p.step_ms == alone);  // the plan is of this job alone
  REQUIRE(p.beside);
  CHECK(p.beside->meets);
  CHECK(p.beside->steps_ms.size() == 8);
  CHECK(p.beside->least_ms <= p.beside->median_ms);
  CHECK(p.beside->median_ms <= p.beside->most_ms);
  CHECK(p.beside->median_ms > 1.02 * alone);
  // Both jobs' rings go in and out of that leaf, whose uplinks are half as much as one of them asks for: at most twice.
  CHECK(p.beside->most_ms < 2.05 * alone);
  plan.request.threads = 3;
  CHECK(plan.predict().beside->steps_ms == p.beside->steps_ms);

  WiredPlan aligned = plan_on({.leaf = 4, .over = 4}, 8, 1);
  aligned.request.beside = BesideRequest{&aligned.workload, other};
  const Prediction apart = aligned.predict();
  REQUIRE(apart.beside);
  CHECK_FALSE(apart.beside->meets);
  CHECK(apart.beside->steps_ms.empty());
}

TEST_CASE("the other job is told with the step of its own plan") {
  WiredPlan plan = plan_on({.leaf = 4, .over = 4}, 6, 1);
  WiredPlan other = plan_on({.leaf = 4, .over = 4}, 4, 2);
  plan.request.beside = BesideRequest{&other.workload, other.request.settings};
  const Prediction p = plan.predict();
  REQUIRE(p.beside);
  other.request.host_scale.reset();
  CHECK(p.beside->other_step_ms == other.predict().step_ms);
  CHECK(p.beside->nodes == 4);
  CHECK(p.beside->replicate == 2);
}

TEST_CASE("another job is refused where links or memory are not known beside it") {
  const auto refused = [](WiredPlan plan) {
    plan.request.beside = BesideRequest{&plan.workload, plan.request.settings};
    return sim::predict(plan.workload, plan.machine, plan.request);
  };
  const auto dragonfly = refused(plan_on({.over = 2, .group = 2}, 6, 1));
  REQUIRE_FALSE(dragonfly);
  CHECK(dragonfly.error().kind == ErrorKind::usage);
  WiredPlan slow = plan_on({.leaf = 4, .over = 4}, 6, 1);
  slow.request.differences.slow_adapters = {{.node = 1, .adapter = 0, .slowdown = 4}};
  CHECK_FALSE(refused(slow));
  WiredPlan recorded = plan_on({.leaf = 4, .over = 4}, 6, 1);
  recorded.request.settings.release = Release::record_stream;
  CHECK_FALSE(refused(recorded));
}

}  // namespace foreshard::sim
