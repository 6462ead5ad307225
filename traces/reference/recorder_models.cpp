#include "traces/reference/recorder_models.hpp"

#include <algorithm>
#include <array>

namespace foreshard::traces {
namespace {

struct Known {
  std::string_view model, config;
};
constexpr std::array kKnown{
    Known{"hf-llama-1b",
          R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
              "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256})"},
    Known{"hf-qwen2-1.5b",
          R"({"model_type": "qwen2", "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
              "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936})"},
    Known{"hf-qwen3-1.7b",
          R"({"model_type": "qwen3", "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28,
              "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936})"},
    Known{"hf-mixtral-small",
          R"({"model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 8,
              "num_attention_heads": 16, "num_key_value_heads": 4, "num_local_experts": 8, "num_experts_per_tok": 2,
              "vocab_size": 32000})"},
    Known{"hf-gpt2-xl",
          R"({"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024,
              "vocab_size": 50257, "tie_word_embeddings": false, "resid_pdrop": 0, "embd_pdrop": 0,
              "attn_pdrop": 0})"}};

}  // namespace

std::string recorder_config(std::string_view model) {
  const auto known = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& k) { return k.model == model; });
  return known == kKnown.end() ? std::string() : std::string(known->config);
}

}  // namespace foreshard::traces
