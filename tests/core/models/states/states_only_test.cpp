// A model of which only parameters are known: every parameter has its shard, its gradient and its estimated products.
#include <algorithm>
#include <string>

#include "core/models/generate.hpp"
#include "tests/catch.hpp"

using namespace foreshard;

namespace {

ModelConfig config() {
  ModelConfig model;
  model.name = std::string("a checkpoint");
  model.family = ModelFamily::states_only;
  model.layers = 2;
  model.dtype = DType::float32;
  model.units = {{"", {{"embed_tokens.weight", {1000, 64}}, {"norm.weight", {64}}, {"lm_head.weight", {1000, 64}}}},
                 {"layers.0", {{"layers.0.w", {64, 64}}, {"layers.0.bias", {64}}}},
                 {"layers.1", {{"layers.1.w", {64, 64}}, {"layers.1.bias", {64}}}}};
  return model;
}

Settings settings() {
  Settings s;
  s.gpus = 4;
  s.batch = 2;
  s.seq = 128;
  s.param_dtype = DType::bfloat16;
  return s;
}

Workload workload(const ModelConfig& model, const Settings& s) {
  auto made = generate(model, s, HostCosts{}, 132);
  INFO((made ? std::string() : made.error().text()));
  REQUIRE(made);
  return std::move(*made);
}

std::uint64_t products(const Workload& w) {
  std::uint64_t flops = 0;
  for (const Op& op : w.steps.back().ops)
    if (op.kind == OpKind::kernel && op.kernel.math.kind == KernelMath::Kind::gemm)
      flops += 2 * op.kernel.math.m * op.kernel.math.n * op.kernel.math.k;
  return flops;
}

}  // namespace

TEST_CASE("every parameter has a shard in setup and a gradient in each step") {
  const Workload w = workload(config(), settings());
  CHECK(w.units.size() == 3);
  CHECK(w.parameters_order.size() == 7);
  const auto shards = std::count_if(w.setup.ops.begin(), w.setup.ops.end(), [](const Op& op) {
    return op.kind == OpKind::alloc && op.size.kind != AllocationSize::Kind::fixed;
  });
  CHECK(shards == 7);
  for (const Program& step : w.steps) {
    std::vector<std::uint32_t> gradients;
    Bytes bytes = 0;
    for (const Op& op : step.ops)
      if (op.kind == OpKind::alloc && op.gradient_of.valid()) {
        gradients.push_back(op.gradient_of.value);
        bytes += op.size.bytes;
      }
    std::sort(gradients.begin(), gradients.end());
    CHECK(gradients == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6});
    CHECK(bytes == 2 * (2 * 64'000 + 64 + 2 * (4096 + 64)));  // bfloat16
  }
}

TEST_CASE("compute is 6 FLOP a parameter and token; an embedding table is looked up") {
  const std::uint64_t tokens = 2 * 128;
  const std::uint64_t multiplied = 64'000 + 2 * 4096;  // the head and the blocks' matrices
  CHECK(products(workload(config(), settings())) == 6 * multiplied * tokens);
  ModelConfig tied = config();
  tied.tied_embedding = true;
  tied.units[0].parameters.pop_back();
  CHECK(products(workload(tied, settings())) == 6 * multiplied * tokens);
}

TEST_CASE("blocks are grouped into units, and hooks come in order") {
  Settings s = settings();
  s.units_per_group = 2;
  const Workload w = workload(config(), s);
  REQUIRE(w.units.size() == 2);
  CHECK(w.units[1].name == "layers.0, layers.1");
  std::vector<Hook> hooks;
  for (const Op& op : w.steps.back().ops)
    if (op.kind == OpKind::hook && op.unit == UnitId{1}) hooks.push_back(op.hook);
  CHECK(hooks == std::vector<Hook>{Hook::pre_forward, Hook::post_forward, Hook::pre_backward, Hook::post_backward});
}

TEST_CASE("checkpointing is refused: there are no activations to leave out") {
  Settings s = settings();
  s.checkpoint = Checkpoint::blocks;
  const auto refused = generate(config(), s, HostCosts{}, 132);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::usage);
}

TEST_CASE("a root without parameters, blocks without a root") {
  ModelConfig model = config();
  model.units[0].parameters.clear();
  CHECK(workload(model, settings()).steps.size() == 2);
  model = config();
  model.units.resize(1);
  CHECK(workload(model, settings()).steps.size() == 2);
}
