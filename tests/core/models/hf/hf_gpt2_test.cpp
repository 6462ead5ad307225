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

TEST_CASE("gpt2: of an odd number of tokens and the vocabulary of 50,257, the head's three products are unaligned") {
  ModelConfig c = small_config(ModelFamily::hf_gpt2);
  c.vocab = 50257;
  Settings settings = small_settings();
  settings.batch = 1;
  settings.seq = 15;
  std::size_t unaligned = 0;
  for (const Op& op : generated(c, settings).steps[1].ops) {
    const KernelMath& math = op.kernel.math;
    if (op.kind != OpKind::kernel || math.kind != KernelMath::Kind::gemm) continue;
    CHECK(math.unaligned == (math.m == 50257 || math.n == 50257 || math.k == 50257));
    unaligned += math.unaligned ? 1 : 0;
  }
  CHECK(unaligned == 3);
}

}  // namespace
}  // namespace foreshard::model::testing
