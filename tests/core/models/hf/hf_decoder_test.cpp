// Llama, Qwen2 and Qwen3 as Hugging Face's eager code runs them.
#include "tests/core/models/hf/hf_fixture.hpp"

namespace foreshard::model::testing {
namespace {

TEST_CASE("each parameter gets one gradient and each hook its place") {
  for (const ModelFamily family : {ModelFamily::hf_llama, ModelFamily::hf_qwen2, ModelFamily::hf_qwen3}) {
    INFO("family " << static_cast<int>(family));
    const Workload workload = generated(small_config(family), small_settings());
    REQUIRE(workload.steps.size() == 2);
    check_step(workload, workload.steps[0]);
    check_step(workload, workload.steps[1]);
  }
}

TEST_CASE("gradients alone outlive a step, library workspaces the first one") {
  const Workload workload = generated(small_config(ModelFamily::hf_qwen3), small_settings());
  const std::size_t parameters = parameter_count(workload);
  CHECK(account(workload, workload.steps[1]).live.size() == parameters);
  // cuBLAS makes a workspace for the forward's thread and one for autograd's.
  CHECK(account(workload, workload.steps[0]).live.size() == parameters + 2);
}

TEST_CASE("units have the names and shapes of the library's modules") {
  const Workload workload = generated(small_config(ModelFamily::hf_qwen3), small_settings());
  REQUIRE(workload.units.size() == 3);
  CHECK(workload.units[0].parameters[0].name == "model.embed_tokens.weight");
  CHECK(workload.units[0].parameters[2].name == "lm_head.weight");
  const Unit& block = workload.units[2];
  CHECK(block.name == "model.layers.1");
  REQUIRE(block.parameters.size() == 11);
  CHECK(block.parameters[1].name == "model.layers.1.self_attn.k_proj.weight");
  CHECK(block.parameters[1].shape == std::vector<std::int64_t>{128, 256});
  CHECK(block.parameters[4].name == "model.layers.1.self_attn.q_norm.weight");
  CHECK(block.parameters[4].shape == std::vector<std::int64_t>{64});
}

TEST_CASE("parameters are counted as the library counts them") {
  // Llama 3.2 1B's configuration: 1,235,814,400 parameters with the tied head, as its model card says.
  ModelConfig c = small_config(ModelFamily::hf_llama);
  c.layers = 16;
  c.dim = 2048;
  c.ffn = 8192;
  c.heads = 32;
  c.kv_heads = 8;
  c.vocab = 128256;
  c.tied_embedding = true;
  CHECK(parameter_elements(generated(c, small_settings())) == 1'235'814'400);
}

TEST_CASE("biases are where the families have them") {
  const auto biases = [](ModelConfig c, bool attention, bool mlp) {
    c.attention_bias = attention;
    c.mlp_bias = mlp;
    const Workload w = generated(c, small_settings());
    return std::count_if(w.units[1].parameters.begin(), w.units[1].parameters.end(),
                         [](const Parameter& p) { return p.name.ends_with(".bias"); });
  };
  CHECK(biases(small_config(ModelFamily::hf_llama), false, false) == 0);
  CHECK(biases(small_config(ModelFamily::hf_llama), true, false) == 4);
  CHECK(biases(small_config(ModelFamily::hf_llama), true, true) == 7);
  CHECK(biases(small_config(ModelFamily::hf_qwen2), true, false) == 3);  // o_proj has none
  CHECK(biases(small_config(ModelFamily::hf_qwen3), true, false) == 4);
}

TEST_CASE("the host waits once a microbatch, for the look at packed sequences") {
  Settings settings = small_settings();
  settings.accumulate = 3;
  const Workload workload = generated(small_config(ModelFamily::hf_llama), settings);
  CHECK(account(workload, workload.steps[1]).synchronisations == 3);
}

TEST_CASE("a tied head is one parameter of the root with one gradient") {
  ModelConfig c = small_config(ModelFamily::hf_llama);
  c.tied_embedding = true;
  const Workload workload = generated(c, small_settings());
  CHECK(workload.units[0].parameters.size() == 2);
  check_step(workload, workload.steps[1]);
}

TEST_CASE("grouped key heads make rotary tables and attention smaller, not their number") {
  ModelConfig wide = small_config(ModelFamily::hf_llama);
  wide.kv_heads = wide.heads;
  const Workload grouped = generated(small_config(ModelFamily::hf_llama), small_settings());
  const Workload plain = generated(wide, small_settings());
  const Account a = account(grouped, grouped.steps[1]);
  const Account b = account(plain, plain.steps[1]);
  CHECK(a.peak < b.peak);
  CHECK(a.products < b.products);
  CHECK(a.kernels.at("aten::mm") == b.kernels.at("aten::mm"));
}

TEST_CASE("checkpointing runs a block's forward again and keeps less") {
  Settings checkpointed = small_settings();
  checkpointed.checkpoint = Checkpoint::blocks;
  const ModelConfig c = small_config(ModelFamily::hf_qwen3);
  const Workload plain = generated(c, small_settings());
  const Workload again = generated(c, checkpointed);
  check_step(again, again.steps[1]);
  const Account a = account(plain, plain.steps[1]);
  const Account b = account(again, again.steps[1]);
  CHECK(b.peak < a.peak);
  CHECK(b.kernels.at("aten::_scaled_dot_product_cudnn_attention") ==
        2 * a.kernels.at("aten::_scaled_dot_product_cudnn_attention"));
}

TEST_CASE("without mixed precision norms cast nothing") {
  ModelConfig c = small_config(ModelFamily::hf_llama);
  c.kv_heads = c.heads;
  Settings settings = small_settings();
  settings.param_dtype.reset();
  settings.reduce_dtype.reset();
  const Workload workload = generated(c, settings);
  check_step(workload, workload.steps[1]);
}

TEST_CASE("offload leaves the rotary frequencies on the host, which waits for their copy") {
  Settings settings = small_settings();
  settings.offload = true;
  const Workload workload = generated(small_config(ModelFamily::hf_llama), settings);
  check_step(workload, workload.steps[1]);
  CHECK(account(workload, workload.steps[1]).synchronisations == 2);
  for (const Op& op : workload.setup.ops) CHECK(op.category != MemoryCategory::parameters);
}

TEST_CASE("odd sizes: one sequence, one token, one key head, one expert a token") {
  for (const ModelFamily family : {ModelFamily::hf_llama, ModelFamily::hf_qwen2, ModelFamily::hf_qwen3,
                                   ModelFamily::hf_mixtral, ModelFamily::hf_gpt2}) {
    ModelConfig c = small_config(family);
    c.layers = 1;
    if (family != ModelFamily::hf_gpt2) c.kv_heads = 1;
    if (family == ModelFamily::hf_mixtral) c.experts_per_token = 1;
    for (const auto& [batch, seq] : {std::pair{1U, 1U}, {1U, 64U}, {3U, 7U}}) {
      INFO("family " << static_cast<int>(family) << ", batch " << batch << ", seq " << seq);
      Settings settings = small_settings();
      settings.batch = batch;
      settings.seq = seq;
      const Workload workload = generated(c, settings);
      check_step(workload, workload.steps[0]);
      check_step(workload, workload.steps[1]);
    }
  }
}

TEST_CASE("two blocks to a unit") {
  Settings settings = small_settings();
  settings.units_per_group = 2;
  const Workload workload = generated(small_config(ModelFamily::hf_llama), settings);
  REQUIRE(workload.units.size() == 2);
  CHECK(workload.units[1].name == "model.layers.0, model.layers.1");
  check_step(workload, workload.steps[1]);
}

}  // namespace
}  // namespace foreshard::model::testing
