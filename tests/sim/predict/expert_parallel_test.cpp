// What a plan says of experts on several ranks: their exchanges together, and whose host times it rests on.
#include <algorithm>

#include "core/explain_time/waited_kinds.hpp"
#include "core/models/generate.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

Prediction planned(std::uint32_t ranks, bool ops_alone = false) {
  ModelConfig model;
  model.name = "small";
  model.family = ModelFamily::hf_mixtral;
  model.layers = 2;
  model.dim = 1024;
  model.ffn = 2048;
  model.heads = 16;
  model.kv_heads = 8;
  model.head_dim = 64;
  model.vocab = 4096;
  model.experts = 8;
  model.experts_per_token = 2;
  Settings settings;
  settings.gpus = 4;
  settings.batch = 4;
  settings.seq = 2048;
  settings.param_dtype = DType::bfloat16;
  settings.expert_parallel = ranks;
  const MachineProfile machine = builtin_profile("h200").value();
  const Workload workload = generate(model, settings, machine.host_calls, machine.gpu()).value();
  PredictRequest request{settings, {}, 4};
  request.ops_alone = ops_alone;
  auto p = predict(workload, machine, request);
  REQUIRE(p);
  REQUIRE(p->has_time);
  return std::move(*p);
}

TEST_CASE("exposed all-to-all is what explain --time has of all exchanges, with or without the host's side") {
  const Prediction p = planned(4);
  double sum = 0;
  for (const WaitedKind& one : waited_kinds(p.run, explain_time(p.run).value()))
    if (one.kind == CollectiveKind::all_to_all) sum += one.time.ms();
  CHECK(p.exposed_all_to_all_ms > 0);
  CHECK(p.exposed_all_to_all_ms == sum);
  constexpr double kLatencies = 0.01;  // without events a kernel's latency may count to the wait before it
  CHECK(planned(4, true).exposed_all_to_all_ms == Approx(sum).margin(kLatencies));
  CHECK(planned(1).exposed_all_to_all_ms == 0);
}

TEST_CASE("what the host's waits for split sizes cost is part of what a host that costs nothing would save") {
  CHECK_FALSE(planned(1).split_size_waits_ms);
  const Prediction p = planned(4);
  REQUIRE(p.split_size_waits_ms);
  CHECK(*p.split_size_waits_ms >= 0);
  CHECK(*p.split_size_waits_ms <= p.step_ms - p.gpu_step_ms + 0.01);
}

TEST_CASE("the host of exchanges that no measured program had is assumed") {
  CHECK(planned(1).host == HostConfidence::measured);
  const Prediction p = planned(4);
  CHECK(p.host == HostConfidence::assumed);
  const auto& said = p.host_bound ? p.not_valid : p.warnings;
  CHECK(std::any_of(said.begin(), said.end(), [](const std::string& one) {
    return one.starts_with("the host is assumed: what the exchanges of experts");
  }));
}

}  // namespace
}  // namespace foreshard::sim
