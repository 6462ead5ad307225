// Remedies for time of a small plan: what plan says, sorted into faster, equal, slower and not valid.
#include "sim/sweep/time_remedies.hpp"

#include <algorithm>
#include <set>

#include "core/settings/carried_out.hpp"
#include "sim/predict/predict.hpp"
#include "sim/sweep/time_candidates.hpp"
#include "tests/catch.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using foreshard::sim::test::base;
using foreshard::sim::test::machine;

namespace {

std::shared_ptr<const Workload> timed() {
  return std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 4, 3.0));
}

TimeRemedies time_remedies_of(const Settings& settings, unsigned threads) {
  OneWorkload source(timed());
  auto found = find_time_remedies(source, machine(), {.settings = settings, .threads = threads});
  INFO((found ? std::string() : found.error().text()));
  REQUIRE(found);
  return std::move(*found);
}

}  // namespace

TEST_CASE("time remedies are what plan says, most time saved first, equal on any number of threads",
          "[time_remedies]") {
  Settings settings = base();
  settings.unshard_async = true;  // without prefetch lists nothing overlaps
  const TimeRemedies one = time_remedies_of(settings, 1);
  const TimeRemedies many = time_remedies_of(settings, 4);
  CHECK(one.tried == one.faster.size() + one.not_valid.size() + one.no_difference.size() + one.slower.size() +
                         one.impossible.size() + one.not_timed.size());
  REQUIRE(one.faster.size() == many.faster.size());
  REQUIRE_FALSE(one.faster.empty());
  double last = one.faster.front().saved_ms;
  for (std::size_t i = 0; i < one.faster.size(); ++i) {
    const TimeRemedy& remedy = one.faster[i];
    INFO(remedy.setting);
    CHECK(remedy.setting == many.faster[i].setting);
    CHECK(remedy.step_ms == many.faster[i].step_ms);
    CHECK(remedy.saved_within >= one.step_ms * one.same);
    CHECK(remedy.saved_ms >= remedy.saved_within);
    CHECK(remedy.saved_ms <= last);
    CHECK_FALSE(remedy.pytorch.empty());
    last = remedy.saved_ms;
    const auto p = predict(*timed(), machine(), {remedy.settings, {}, 4});
    REQUIRE(p);
    CHECK(p->step_ms == remedy.step_ms);
    CHECK(p->peaks == remedy.peaks);
  }
  for (const TimeRemedy& remedy : one.no_difference) {
    const auto p = predict(*timed(), machine(), {remedy.settings, {}, 4});
    REQUIRE(p);
    CHECK(std::abs(remedy.saved_ms) < one.step_ms * std::max(one.same, p->difference));
  }
  for (const TimeRemedy& remedy : one.not_valid) CHECK_FALSE(remedy.not_valid.empty());
}

TEST_CASE("what is against the run's own settings is said of them, and of no change", "[time_remedies]") {
  Settings settings = base();
  settings.all_gather = Transport::low_contention;  // measured on no machine
  const TimeRemedies found = time_remedies_of(settings, 2);
  const auto p = predict(*timed(), machine(), {settings, {}, 4});
  REQUIRE(p);
  CHECK(found.own_not_valid == p->not_valid);
  REQUIRE_FALSE(found.own_not_valid.empty());
  for (const auto* remedies : {&found.faster, &found.not_valid, &found.no_difference, &found.slower})
    for (const TimeRemedy& remedy : *remedies)
      for (const std::string& why : remedy.not_valid)
        CHECK(std::find(found.own_not_valid.begin(), found.own_not_valid.end(), why) == found.own_not_valid.end());
}

TEST_CASE("time candidates differ from the run and from one another, and fit it", "[time_remedies]") {
  for (const bool several_nodes : {false, true}) {
    Settings settings = base();
    settings.reduce_dtype = DType::float32;
    if (several_nodes) settings.nodes = 2;
    std::set<std::string> options;
    for (const TimeCandidate& one : time_candidates(settings)) {
      INFO(one.candidate.setting);
      CHECK(options.insert(one.candidate.setting).second);
      Settings changed = settings;
      one.change(changed);
      CHECK(changed == one.candidate.settings);
      CHECK_FALSE(changed == settings);
    }
    CHECK(options.contains("--reduce-dtype bfloat16"));
    CHECK(options.contains("--all-gather copy-engine"));
    CHECK(options.contains("--replicate 2") == several_nodes);
  }
  Settings later = base();
  const auto inputs = [](const Settings& settings) {
    const auto list = time_candidates(settings);
    return std::any_of(list.begin(), list.end(), [](const TimeCandidate& one) {
      return one.candidate.setting == "--reduce-scatter-max-input-buffers 2";
    });
  };
  CHECK_FALSE(inputs(later));  // 2.11 has no such call
  later.pytorch = "2.13";
  CHECK(inputs(later));
  Settings tuned = base();
  tuned.post_optimizer_event = true;
  for (const TimeCandidate& one : time_candidates(tuned))
    CHECK((one.candidate.setting.find("post-optimizer-event") == std::string::npos ||
           one.candidate.settings.cuda_graph.has_value()));  // which takes it back
}

TEST_CASE("a CUDA graph is offered of PyTorch's program alone", "[time_remedies]") {
  const auto offers = [](Lowering lowering) {
    const auto list = time_candidates(base(), {false, lowering});
    return std::any_of(list.begin(), list.end(),
                       [](const TimeCandidate& one) { return one.candidate.settings.cuda_graph.has_value(); });
  };
  CHECK(offers(Lowering::pytorch));
  CHECK_FALSE(offers(Lowering::foreshard));
}

TEST_CASE("what foreshard's own program leaves out is offered of that program alone", "[time_remedies]") {
  const auto offered = [](Lowering lowering, bool computes) {
    std::size_t count = 0;
    for (const TimeCandidate& one : time_candidates(base(), {false, lowering, computes}))
      count += of_own_program(one.candidate.settings).empty() ? 0 : 1;
    return count;
  };
  CHECK(offered(Lowering::foreshard, true) == 3);
  CHECK(offered(Lowering::foreshard, false) == 0);
  CHECK(offered(Lowering::pytorch, true) == 0);
}

TEST_CASE("all-gathers in float8 are offered where weights are multiplied in it", "[time_remedies]") {
  Settings float8 = base();
  float8.gpus = 4;
  float8.param_dtype = DType::bfloat16;
  float8.kernels = Kernels::fused;
  const auto offered = [](const Settings& settings) {
    const auto list = time_candidates(settings, {false, Lowering::foreshard, true});
    return std::count_if(list.begin(), list.end(),
                         [](const TimeCandidate& one) { return one.candidate.setting == "--float8-all-gather"; });
  };
  CHECK(offered(float8) == 0);
  float8.float8 = Float8::tensorwise;
  CHECK(offered(float8) == 1);
  float8.float8_all_gather = true;
  CHECK(offered(float8) == 0);
}

TEST_CASE("reduce-scatters of their own communicator are simulated, and modelled alone", "[time_remedies]") {
  const TimeRemedies found = time_remedies_of(base(), 2);
  const auto remedy = std::find_if(found.not_valid.begin(), found.not_valid.end(),
                                   [](const TimeRemedy& r) { return r.setting == "--separate-reduce-scatter-group"; });
  REQUIRE(remedy != found.not_valid.end());
  CHECK(remedy->pytorch.find("SeparateReduceScatter(mesh.get_group())") != std::string::npos);  // 2.11 has no call
  REQUIRE_FALSE(remedy->not_valid.empty());
  CHECK(remedy->not_valid.front().find("modelled, not measured") != std::string::npos);
  CHECK(remedy->step_ms <= found.step_ms * 1.001);
}

namespace {

/// A program whose host issues each op late.
Workload late_host() {
  Workload workload = foreshard::test::timed_workload(base(), 4, 3.0);
  for (Program& step : workload.steps)
    for (Op& op : step.ops) op.host_before = {400'000};
  return workload;
}

const TimeRemedy* graph_of(const TimeRemedies& found) {
  for (const auto* remedies : {&found.faster, &found.no_difference})
    for (const TimeRemedy& remedy : *remedies)
      if (remedy.setting == "--cuda-graph 3") return &remedy;
  return nullptr;
}

}  // namespace

TEST_CASE("a CUDA graph leaves the step without the host's work in both passes", "[time_remedies]") {
  const auto workload = std::make_shared<const Workload>(late_host());
  OneWorkload source(workload);
  const auto found = find_time_remedies(source, machine(), {.settings = base(), .threads = 2});
  REQUIRE(found);
  const TimeRemedy* graph = graph_of(*found);
  REQUIRE(graph != nullptr);
  const auto p = predict(*workload, machine(), {base(), {}});
  REQUIRE(p);
  CHECK(graph->step_ms < 0.8 * p->step_ms);
  REQUIRE(graph->settings.cuda_graph);
  const auto graphed = predict(*workload, machine(), {graph->settings, {}});
  REQUIRE(graphed);
  CHECK(graph->step_ms == graphed->step_ms);
  CHECK(graph->peaks == graphed->peaks);
  CHECK(graphed->graph_pool.reserved > 0);
  CHECK(graph->pytorch.find("torch.cuda.graph(graph") != std::string::npos);
}

TEST_CASE("a program whose host waits for the GPU in a pass is not captured", "[time_remedies]") {
  Workload workload = late_host();
  for (Program& step : workload.steps) {
    Op wait;
    wait.kind = OpKind::synchronize;
    const auto forward = std::find_if(step.ops.begin(), step.ops.end(), [](const Op& op) {
      return op.kind == OpKind::hook && op.hook == Hook::forward_end;
    });
    step.ops.insert(forward, wait);
  }
  OneWorkload source(std::make_shared<const Workload>(workload));
  const auto found = find_time_remedies(source, machine(), {.settings = base(), .threads = 2});
  REQUIRE(found);
  CHECK(graph_of(*found) == nullptr);
  const auto said = [&](const TimeRemedies& all, const std::string& why) {
    return std::any_of(all.not_valid.begin(), all.not_valid.end(), [&](const TimeRemedy& remedy) {
      return remedy.setting.starts_with("--cuda-graph 3") && remedy.not_valid.front().find(why) != std::string::npos;
    });
  };
  CHECK(said(*found, "the host waits for the GPU in forward or backward"));
}

TEST_CASE("a change whose times neither the recording nor the profile has is no remedy", "[time_remedies]") {
  const auto says = [](const TimeRemedies& found) {
    return std::any_of(found.not_timed.begin(), found.not_timed.end(), [](const std::string& text) {
      return text.starts_with("--optimizer adam-fused: the recording's optimizer is adam");
    });
  };
  CHECK_FALSE(says(time_remedies_of(base(), 2)));
  MachineProfile no_calls = machine();
  no_calls.host_calls_known = false;
  OneWorkload source(std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 2)));
  const auto found = find_time_remedies(source, no_calls, {.settings = base(), .threads = 1});
  REQUIRE(found);
  CHECK(says(*found));
}

TEST_CASE("a workload without times has no remedies for time", "[time_remedies]") {
  Workload untimed = foreshard::test::timed_workload(base(), 2);
  untimed.has_timing = false;
  OneWorkload source(std::make_shared<const Workload>(std::move(untimed)));
  CHECK_FALSE(find_time_remedies(source, machine(), {.settings = base(), .threads = 1}));
}
