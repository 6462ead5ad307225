// What a plan says of experts on several ranks: their exchanges together, and whose host times it rests on.
#include <cstdint>

#include "core/explain_time/waited_kinds.hpp"
#include "core/models/generate.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

constexpr std::uint32_t kBlocks = 2;

ModelConfig small() {
  ModelConfig model;
  model.name = "small";
  model.family = ModelFamily::hf_mixtral;
  model.layers = kBlocks;
  model.dim = 1024;
  model.ffn = 2048;
  model.heads = 16;
  model.kv_heads = 8;
  model.head_dim = 64;
  model.vocab = 4096;
  model.experts = 8;
  model.experts_per_token = 2;
  return model;
}

Settings over(std::uint32_t ranks) {
  Settings settings;
  settings.gpus = 4;
  settings.batch = 4;
  settings.seq = 2048;
  settings.param_dtype = DType::bfloat16;
  settings.expert_parallel = ranks;
  return settings;
}

/// Nanoseconds of the host's own work in a step over four ranks.
std::int64_t host_of_a_step(const HostCosts& host) {
  const Workload workload = generate(small(), over(4), host, builtin_profile("h200").value().gpu()).value();
  std::int64_t sum = 0;
  for (const Op& op : workload.steps.back().ops) sum += op.host_before.count;
  return sum;
}

Prediction planned(std::uint32_t ranks, bool ops_alone = false) {
  const Settings settings = over(ranks);
  const MachineProfile machine = builtin_profile("h200").value();
  const Workload workload = generate(small(), settings, machine.host_calls, machine.gpu()).value();
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

TEST_CASE("what exchanges cost the host is the profile's: three in forward and two in backward of each block") {
  const MachineProfile machine = builtin_profile("h200").value();
  HostCosts free = machine.host_calls;
  for (const HostCall call : {HostCall::all_to_all, HostCall::all_to_all_wait, HostCall::backward_all_to_all})
    free.time[static_cast<std::size_t>(call)] = Nanoseconds{0};
  const auto of = [&](HostCall call) { return machine.host_calls[call].count; };
  const std::int64_t block =
      3 * (of(HostCall::all_to_all) + of(HostCall::all_to_all_wait)) + 2 * of(HostCall::backward_all_to_all);
  CHECK(host_of_a_step(machine.host_calls) - host_of_a_step(free) == kBlocks * block);
  CHECK(planned(4).host == HostConfidence::assumed);  // docs/experts.md has the rows
}

}  // namespace
}  // namespace foreshard::sim
