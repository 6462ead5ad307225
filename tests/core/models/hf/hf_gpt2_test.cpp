// GPT-2 as Hugging Face's eager code runs it.
#include "tests/core/models/hf/hf_fixture.hpp"

namespace foreshard::model::testing {
namespace {

TEST_CASE("gpt2: each parameter gets one gradient and each hook its place") {
  const Workload workload = generated(small_config(ModelFamily::hf_gpt2), small_settings());
  check_step(workload, workload.steps[0]);
  check_step(workload, workload.steps[1]);
}

TEST_CASE("gpt2: Conv1D keeps input by output") {
  const Workload workload = generated(small_config(ModelFamily::hf_gpt2), small_settings());
  const Unit& block = workload.units[1];
  CHECK(block.name == "transformer.h.0");
  REQUIRE(block.parameters.size() == 12);
  CHECK(block.parameters[2].name == "transformer.h.0.attn.c_attn.weight");
  CHECK(block.parameters[2].shape == std::vector<std::int64_t>{256, 768});
  CHECK(block.parameters[3].shape == std::vector<std::int64_t>{768});
}

TEST_CASE("gpt2: addmm makes cublasLt's workspace once, beside cuBLAS' two") {
  const Workload workload = generated(small_config(ModelFamily::hf_gpt2), small_settings());
  CHECK(account(workload, workload.steps[0]).live.size() == parameter_count(workload) + 3);
  CHECK(account(workload, workload.steps[1]).live.size() == parameter_count(workload));
}

TEST_CASE("gpt2: gelu_new is a composite of eight kernels a block") {
  const Workload workload = generated(small_config(ModelFamily::hf_gpt2), small_settings());
  const Account a = account(workload, workload.steps[1]);
  CHECK(a.kernels.at("aten::tanh") == 2 * 2);  // forward and backward of two blocks
  CHECK(a.kernels.at("aten::pow") == 2 * 2);
}

TEST_CASE("gpt2: parameters are counted as the library counts them") {
  ModelConfig c = small_config(ModelFamily::hf_gpt2);  // gpt2-xl
  c.layers = 48;
  c.dim = 1600;
  c.ffn = 6400;
  c.heads = c.kv_heads = 25;
  c.vocab = 50257;
  c.positions = 1024;
  c.tied_embedding = true;
  CHECK(parameter_elements(generated(c, small_settings())) == 1'557'611'200);
}

}  // namespace
}  // namespace foreshard::model::testing
