// Mixtral's router and experts as Hugging Face's eager code runs them.
#include "tests/core/models/hf/hf_fixture.hpp"

namespace foreshard::model::testing {
namespace {

TEST_CASE("mixtral: each parameter gets one gradient and each hook its place") {
  const Workload workload = generated(small_config(ModelFamily::hf_mixtral), small_settings());
  check_step(workload, workload.steps[0]);
  check_step(workload, workload.steps[1]);
}

TEST_CASE("mixtral: experts are three-dimensional parameters of the block") {
  const Workload workload = generated(small_config(ModelFamily::hf_mixtral), small_settings());
  const Unit& block = workload.units[1];
  REQUIRE(block.parameters.size() == 9);
  CHECK(block.parameters[4].name == "model.layers.0.mlp.gate.weight");
  CHECK(block.parameters[4].shape == std::vector<std::int64_t>{4, 256});
  CHECK(block.parameters[5].name == "model.layers.0.mlp.experts.gate_up_proj");
  CHECK(block.parameters[5].shape == std::vector<std::int64_t>{4, 1024, 256});
  CHECK(block.parameters[6].name == "model.layers.0.mlp.experts.down_proj");
  CHECK(block.parameters[6].shape == std::vector<std::int64_t>{4, 256, 512});
}

TEST_CASE("mixtral: parameters are counted as the library counts them") {
  ModelConfig c = small_config(ModelFamily::hf_mixtral);  // Mixtral 8x7B: 46.7 billion
  c.layers = 32;
  c.dim = 4096;
  c.ffn = 14336;
  c.heads = 32;
  c.kv_heads = 8;
  c.head_dim = 128;
  c.vocab = 32000;
  c.experts = 8;
  CHECK(parameter_elements(generated(c, small_settings())) == 46'702'792'704);
}

TEST_CASE("mixtral: work grows with the experts of a token, not with the experts") {
  const auto products = [](std::uint32_t experts, std::uint32_t per_token) {
    ModelConfig c = small_config(ModelFamily::hf_mixtral);
    c.experts = experts;
    c.experts_per_token = per_token;
    const Workload w = generated(c, small_settings());
    Account a = account(w, w.steps[1]);
    std::uint64_t grouped = 0;
    for (const Op& op : w.steps[1].ops)
      if (op.kind == OpKind::kernel && w.labels.text(op.kernel.label) == "aten::_grouped_mm")
        grouped += op.kernel.math.batch * op.kernel.math.m * op.kernel.math.n * op.kernel.math.k;
    return grouped;
  };
  CHECK(products(8, 2) == products(4, 2));
  CHECK(products(4, 4) == 2 * products(4, 2));
  // Two products forward, four backward, of tokens · k rows: 3 · (2 · ffn · dim + ffn · dim) a row, in two blocks.
  CHECK(products(4, 2) == 2 * 3 * 3 * 512 * 256 * (2 * 64 * 2));
}

TEST_CASE("mixtral: checkpointing") {
  Settings settings = small_settings();
  settings.checkpoint = Checkpoint::blocks;
  const Workload workload = generated(small_config(ModelFamily::hf_mixtral), settings);
  check_step(workload, workload.steps[1]);
}

}  // namespace
}  // namespace foreshard::model::testing
