#include "traces/model_files/hf_config.hpp"

#include <string>
#include <utility>
#include <vector>

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

ModelFile read(const std::string& text) {
  auto file = parse_hf_config(text, "config.json");
  INFO((file ? std::string() : file.error().text()));
  REQUIRE(file);
  return *file;
}

Error refused(const std::string& text) {
  const auto file = parse_hf_config(text, "config.json");
  REQUIRE_FALSE(file);
  return file.error();
}

// As published for Llama 3 8B, without what shapes nothing.
const std::string kLlama = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
  "max_position_embeddings": 8192, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 500000.0,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 128256})";

std::string with(const std::string& key, const std::string& value) {
  std::string text = kLlama;
  const std::size_t at = text.find("\"" + key + "\": ");
  if (at == std::string::npos) return "{\"" + key + "\": " + value + "," + text.substr(1);
  const std::size_t begin = at + key.size() + 4;
  return text.replace(begin, text.find_first_of(",}", begin) - begin, value);
}

}  // namespace

TEST_CASE("a llama config.json as published") {
  const ModelFile file = read(kLlama);
  const ModelConfig& m = file.model;
  CHECK(m.family == ModelFamily::hf_llama);
  CHECK(m.name == "llama");
  CHECK(m.layers == 32);
  CHECK(m.dim == 4096);
  CHECK(m.ffn == 14336);
  CHECK(m.heads == 32);
  CHECK(m.kv_heads == 8);
  CHECK(m.head_dim == 128);
  CHECK(m.vocab == 128256);
  CHECK(m.dtype == DType::bfloat16);
  CHECK_FALSE(m.tied_embedding);
  CHECK_FALSE(m.attention_bias);
  CHECK_FALSE(m.mlp_bias);
  CHECK(m.default_seq == 2048);
  CHECK(file.warnings.empty());
}

TEST_CASE("absent keys have the library's defaults, by family") {
  const std::string sizes =
      R"("hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "vocab_size": 151936,)";
  const ModelConfig llama = read("{\"model_type\": \"llama\"," + sizes + R"("num_attention_heads": 16})").model;
  CHECK(llama.kv_heads == 16);
  CHECK(llama.head_dim == 128);
  CHECK(llama.dtype == DType::float32);
  CHECK_FALSE(llama.tied_embedding);

  const ModelConfig qwen2 = read("{\"model_type\": \"qwen2\"," + sizes +
                                 R"("num_attention_heads": 16, "num_key_value_heads": 2, "tie_word_embeddings": true})")
                                .model;
  CHECK(qwen2.attention_bias);
  CHECK(qwen2.tied_embedding);

  const ModelConfig qwen3 = read("{\"model_type\": \"qwen3\"," + sizes +
                                 R"("num_attention_heads": 32, "num_key_value_heads": 8, "dtype": "float16"})")
                                .model;
  CHECK(qwen3.head_dim == 128);  // not 2048 / 32
  CHECK_FALSE(qwen3.attention_bias);
  CHECK(qwen3.dtype == DType::float16);

  const ModelConfig mixtral = read("{\"model_type\": \"mixtral\"," + sizes + R"("num_attention_heads": 32})").model;
  CHECK(mixtral.kv_heads == 8);
  CHECK(mixtral.experts == 8);
  CHECK(mixtral.experts_per_token == 2);

  const std::string moe = "{\"model_type\": \"qwen3_moe\"," + sizes + R"("num_attention_heads": 32)";
  const ModelConfig qwen3_moe = read(moe + "}").model;
  CHECK(qwen3_moe.kv_heads == 4);
  CHECK(qwen3_moe.head_dim == 64);
  CHECK(qwen3_moe.experts == 128);
  CHECK(qwen3_moe.experts_per_token == 8);
  CHECK(qwen3_moe.ffn == 768);
  CHECK(qwen3_moe.dense_ffn == 6144);
  CHECK_FALSE(qwen3_moe.scores_add_up);
  CHECK(qwen3_moe.has_experts(27));
  const ModelConfig sparse = read(moe + R"(, "num_experts": 16, "num_experts_per_tok": 2, "norm_topk_prob": true,
                                     "decoder_sparse_step": 2, "mlp_only_layers": [3, 5]})")
                                 .model;
  CHECK(sparse.experts == 16);
  CHECK(sparse.scores_add_up);
  CHECK((!sparse.has_experts(0) && sparse.has_experts(1) && !sparse.has_experts(3) && sparse.has_experts(7)));
  for (const char* wrong : {"[28]", "[-1]", "[1.5]", "\"3\""}) {
    INFO(wrong);
    CHECK(refused(moe + ", \"mlp_only_layers\": " + wrong + "}").where == "config.json, mlp_only_layers");
  }

  const ModelFile gpt2 = read(R"({"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25,
                                  "vocab_size": 50257, "resid_pdrop": 0, "embd_pdrop": 0.0, "attn_pdrop": 0.0})");
  CHECK(gpt2.model.positions == 1024);
  CHECK(gpt2.model.ffn == 6400);
  CHECK(gpt2.model.head_dim == 64);
  CHECK(gpt2.model.kv_heads == 25);
  CHECK(gpt2.model.tied_embedding);
  CHECK(gpt2.model.default_seq == 1024);
  CHECK(gpt2.warnings.empty());
}

TEST_CASE("mistral: Llama without biases, in a sliding window unless it is null") {
  const std::string sizes = R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32768)";
  const ModelFile usual = read(sizes + R"(, "attention_bias": true, "mlp_bias": true})");  // keys of llama's alone
  CHECK(usual.model.family == ModelFamily::hf_llama);
  CHECK(usual.model.name == "mistral");
  CHECK(usual.model.kv_heads == 8);
  CHECK(usual.model.head_dim == 128);
  CHECK(usual.model.sliding_window == 4096);
  CHECK((!usual.model.attention_bias && !usual.model.mlp_bias));
  CHECK(usual.warnings.empty());
  CHECK(read(sizes + R"(, "sliding_window": 1024})").model.sliding_window == 1024);
  CHECK(read(sizes + R"(, "sliding_window": null})").model.sliding_window == 0);
  CHECK(refused(sizes + R"(, "sliding_window": -1})").where == "config.json, sliding_window");
}

TEST_CASE("qwen: a window where use_sliding_window gives some layer one, and no warning below it") {
  const std::string sizes = R"({"model_type": "qwen2", "hidden_size": 1024, "intermediate_size": 4096,
    "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 2, "vocab_size": 32768)";
  CHECK(read(sizes + "}").model.sliding_window == 0);
  CHECK(read(sizes + R"(, "sliding_window": 2048})").model.sliding_window == 0);
  const std::string windowed = sizes + R"(, "use_sliding_window": true)";
  const ModelFile usual = read(windowed + "}");  // the last four of 32 layers
  CHECK(usual.model.sliding_window == 4096);
  CHECK(usual.warnings.empty());
  CHECK(read(windowed + R"(, "sliding_window": 2048})").model.sliding_window == 2048);
  CHECK(read(windowed + R"(, "sliding_window": null})").model.sliding_window == 0);
  CHECK(read(windowed + R"(, "max_window_layers": 32})").model.sliding_window == 0);
  CHECK(read(windowed + R"(, "max_window_layers": 0})").model.sliding_window == 4096);
}

TEST_CASE("what the generators leave out is said") {
  const ModelFile gpt2 =
      read(R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257})");
  REQUIRE(gpt2.warnings.size() == 1);  // the library's defaults are 0.1
  CHECK(gpt2.warnings[0].find("resid_pdrop, embd_pdrop, attn_pdrop") != std::string::npos);
  CHECK(read(with("attention_dropout", "0.1")).warnings.size() == 1);
}

TEST_CASE("deepseek_v3: the library's defaults, and what a file says otherwise") {
  const std::string sizes = R"({"model_type": "deepseek_v3", "hidden_size": 2048, "intermediate_size": 11264,
    "num_hidden_layers": 4, "num_attention_heads": 16, "vocab_size": 163840)";
  const ModelConfig usual = read(sizes + "}").model;
  CHECK(usual.latent ==
        LatentAttention{.kv_rank = 512, .q_rank = 1536, .nope = 128, .rope = 64, .value = 128, .interleaves = true});
  CHECK(usual.head_dim == 192);
  CHECK(usual.experts == 256);
  CHECK(usual.experts_per_token == 8);
  CHECK(usual.shared_experts == 1);
  CHECK(usual.expert_groups == 8);
  CHECK(usual.expert_groups_per_token == 4);
  CHECK(usual.ffn == 2048);
  CHECK(usual.dense_ffn == 11264);
  CHECK(usual.scores_add_up);
  CHECK_FALSE(usual.has_experts(2));
  CHECK(usual.has_experts(3));
  const ModelFile moonlight = read(sizes + R"(, "q_lora_rank": null, "n_routed_experts": 64, "n_shared_experts": 2,
    "num_experts_per_tok": 6, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "moe_intermediate_size": 1408,
    "num_nextn_predict_layers": 1})");
  CHECK(moonlight.model.latent.q_rank == 0);
  CHECK(moonlight.model.expert_groups == 1);
  CHECK(moonlight.model.has_experts(1));
  REQUIRE(moonlight.warnings.size() == 1);
  CHECK(moonlight.warnings[0].starts_with("num_nextn_predict_layers is left out"));
  for (const char* wrong : {R"(, "num_key_value_heads": 8})", R"(, "n_group": 7})", R"(, "topk_group": 9})",
                            R"(, "qk_rope_head_dim": 63})", R"(, "num_experts_per_tok": 300})"}) {
    INFO(wrong);
    CHECK(refused(sizes + wrong).kind == ErrorKind::input);
  }
}

TEST_CASE("unknown families are refused with what works instead") {
  const Error unknown = refused(R"({"model_type": "t5"})");
  CHECK(unknown.kind == ErrorKind::usage);
  CHECK(unknown.where == "config.json, model_type");
  CHECK(unknown.what == "no generator knows the model_type 't5'");
  for (const char* word : {"llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, deepseek_v3, gpt2", "safetensors",
                           "foreshard import", "workload file"})
    CHECK(unknown.hint.find(word) != std::string::npos);
  const Error latent = refused(R"({"model_type": "deepseek_v2"})");
  CHECK(latent.kind == ErrorKind::usage);
  CHECK(latent.what.starts_with("deepseek_v2: its rotary embedding and its router are not modelled"));
  CHECK(refused(R"({"model_type": "qwen4"})").hint.starts_with("did you mean 'qwen"));
  CHECK(refused(R"({"text_config": {}})").kind == ErrorKind::usage);
  CHECK(refused(R"({"hidden_size": 5})").what.find("'model_type' is missing") != std::string::npos);
}

TEST_CASE("wrong values are refused with their key and the reason") {
  const std::vector<std::pair<std::string, std::string>> wrong{{"hidden_size", "4096.0"},
                                                               {"hidden_size", "\"4096\""},
                                                               {"hidden_size", "-4096"},
                                                               {"hidden_size", "0"},
                                                               {"hidden_size", "4100"},
                                                               {"hidden_size", "1e300"},
                                                               {"num_hidden_layers", "1000000000"},
                                                               {"num_hidden_layers", "18446744073709551615"},
                                                               {"num_attention_heads", "true"},
                                                               {"num_key_value_heads", "5"},
                                                               {"num_key_value_heads", "[]"},
                                                               {"vocab_size", "{}"},
                                                               {"vocab_size", "999999999999"},
                                                               {"intermediate_size", "-1"},
                                                               {"head_dim", "127"},
                                                               {"tie_word_embeddings", "1"},
                                                               {"attention_bias", "\"no\""},
                                                               {"torch_dtype", "\"int8\""},
                                                               {"torch_dtype", "16"},
                                                               {"model_type", "3"},
                                                               {"attention_dropout", "-0.5"},
                                                               {"hidden_act", "\"relu\""},
                                                               {"quantization_config", "{\"bits\": 4}"}};
  for (const auto& [key, value] : wrong) {
    INFO(key << " = " << value);
    const Error error = refused(with(key, value));
    CHECK(error.where == "config.json, " + key);
    CHECK_FALSE(error.what.empty());
  }
  CHECK(refused(with("hidden_size", "4100")).what == "4100 is not divisible by the 32 attention heads");
  CHECK(refused(with("num_hidden_layers", "1000000000")).what == "1000000000 is out of range: at most 2048");
}

TEST_CASE("a missing or misspelt size is refused, a null one too") {
  const Error missing = refused(with("intermediate_size", "null"));
  CHECK(missing.where == "config.json, intermediate_size");
  CHECK(missing.what == "this key is missing");
  std::string text = kLlama;
  text.replace(text.find("num_hidden_layers"), 17, "num_hidden_layer");
  CHECK(refused(text).hint == "the file has 'num_hidden_layer'");
}

TEST_CASE("broken JSON is refused with its place") {
  CHECK(refused("{\"model_type\": \"llama\",").where.starts_with("config.json, line 1"));
  CHECK(refused("[]").what.find("an object is needed") != std::string::npos);
  CHECK(refused(R"({"model_type": "llama", "model_type": "gpt2"})").what.find("occurs twice") != std::string::npos);
  const auto file = read_hf_config("/nonexistent/config.json");
  REQUIRE_FALSE(file);
  CHECK(file.error().where == "/nonexistent/config.json");
}

TEST_CASE("sizes that are in bounds one by one and not together are refused, with the key that makes most of it") {
  const auto config = [](const std::string& sizes) {
    return R"({"model_type": "llama", "num_hidden_layers": 4, )" + sizes + "}";
  };
  const Error heads = refused(config(R"("hidden_size": 4194304, "num_attention_heads": 1024, "head_dim": 4194304,
    "intermediate_size": 1024, "vocab_size": 1000)"));
  CHECK(heads.where.find("head_dim") != std::string::npos);
  CHECK(heads.what.find("parameters") != std::string::npos);
  const Error wide = refused(config(R"("hidden_size": 4194304, "num_attention_heads": 1024,
    "num_key_value_heads": 8, "intermediate_size": 4194304, "vocab_size": 1000)"));
  CHECK(wide.where.find("intermediate_size") != std::string::npos);
  const Error words = refused(config(R"("hidden_size": 1048576, "num_attention_heads": 1024,
    "intermediate_size": 1024, "vocab_size": 67108864)"));
  CHECK(words.where.find("vocab_size") != std::string::npos);
  const Error positions = refused(R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 65536, "n_head": 64,
    "vocab_size": 1000, "n_positions": 2147483648})");
  CHECK(positions.where.find("n_positions") != std::string::npos);
}
