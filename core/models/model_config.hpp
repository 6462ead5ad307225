// A model in the numbers of its configuration: what a family's generator needs to know.
//
// Who: presets (core/models/presets.hpp), Hugging Face config.json and safetensors headers
// (traces/model_files) make one; core/models/generate.hpp turns it into a Workload. Plain data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/workload/unit.hpp"

namespace foreshard {

/// Whose eager code runs. Values are stored; never renumber.
enum class ModelFamily : std::uint8_t {
  mlp = 0,    ///< pytorch#147168's stack: LayerNorm, `layers` × (x + Linear-GELU-Linear), LayerNorm; loss mean()
  llama = 1,  ///< plain PyTorch Llama: RMSNorm, rotary, SDPA with grouped heads, SwiGLU; cross-entropy in float32
  torch_transformer = 2,  ///< torch.testing._internal…common_dtensor.Transformer, tied embedding; loss sum()
  hf_llama = 3,           ///< Hugging Face transformers' LlamaForCausalLM, sdpa, labels given
  hf_qwen2 = 4,
  hf_qwen3 = 5,
  hf_mixtral = 6,
  hf_gpt2 = 7,
  states_only = 8,  ///< parameters alone: `units` as given; no activations, compute estimated
  mpt = 9,          ///< llm-foundry's MPT: LayerNorm, fused Wqkv, GELU, learned positions, tied head
  hf_qwen3_moe = 10,
  hf_deepseek_v3 = 11,
};

/// Low-rank updates beside frozen linear layers, in PEFT's words (peft.LoraConfig): lora_dropout 0, no bias.
struct LoraConfig {
  std::uint32_t rank = 0;  ///< r; 0: none
  /// target_modules: ends of linear layers' names (name_pattern.hpp); {"all-linear"}: all of the blocks; empty: PEFT's
  /// default, the projections to queries and values.
  std::vector<std::string> targets;
  bool operator==(const LoraConfig&) const = default;
};

/// Multi-head latent attention (DeepSeek-V3): keys and values of all heads are made from one narrow projection, and of
/// each head of q and k only a part is turned by the rotary embedding. Without grouped heads.
struct LatentAttention {
  std::uint64_t kv_rank = 0;  ///< kv_lora_rank; 0: the model has another attention
  std::uint64_t q_rank = 0;   ///< q_lora_rank; 0: one projection, q_proj
  std::uint64_t nope = 0;     ///< qk_nope_head_dim: what of a head of q and k is not turned
  std::uint64_t rope = 0;     ///< qk_rope_head_dim: what is; of k it is the same for all heads
  std::uint64_t value = 0;    ///< v_head_dim
  bool interleaves = true;    ///< rope_interleave: pairs are neighbours, and are put apart first
  [[nodiscard]] std::uint64_t query() const { return nope + rope; }
  bool operator==(const LatentAttention&) const = default;
};

struct ModelConfig {
  std::string name;  ///< preset, or the file's model name
  ModelFamily family = ModelFamily::llama;
  std::uint32_t layers = 0;
  std::uint64_t dim = 0;       ///< hidden size
  std::uint64_t ffn = 0;       ///< intermediate size of one (expert's) feed-forward
  std::uint32_t heads = 0;     ///< query heads
  std::uint32_t kv_heads = 0;  ///< equals `heads` without grouping
  std::uint64_t head_dim = 0;
  std::uint64_t vocab = 0;
  std::uint64_t positions = 0;       ///< learned positions (gpt2, torch_transformer); 0: none
  std::uint32_t sliding_window = 0;  ///< mistral, mixtral: tokens that attention looks back; 0: all
  LatentAttention latent = {};       ///< deepseek_v3; head_dim is then that of q and k
  std::uint32_t experts = 0;         ///< mixtral, qwen3_moe, deepseek_v3: routed ones
  std::uint32_t experts_per_token = 0;
  std::uint32_t expert_ranks = 1;    ///< ranks that the experts are split over (Settings::expert_parallel)
  std::uint32_t shared_experts = 0;  ///< deepseek_v3: every token passes them, as one feed-forward of their width
  std::uint32_t expert_groups = 0;   ///< n_group of deepseek_v3's router; 0: a softmax over all experts
  std::uint32_t expert_groups_per_token = 0;     ///< topk_group
  std::uint64_t dense_ffn = 0;                   ///< qwen3_moe, deepseek_v3: of the layers without experts
  std::uint32_t sparse_step = 1;                 ///< decoder_sparse_step: every so many layers has experts, unless …
  std::vector<std::uint32_t> dense_layers = {};  ///< … it is one of these (mlp_only_layers, first_k_dense_replace)
  bool scores_add_up = true;                     ///< norm_topk_prob
  bool tied_embedding = false;                   ///< the head's weight is the embedding's
  bool attention_bias = false;                   ///< q, k, v (and where the family says so o) have biases
  bool mlp_bias = false;
  double dropout = 0;  ///< torch_transformer: probability, after attention, feed-forward and embedding, and inside SDPA
  DType dtype = DType::float32;     ///< of the stored parameters
  bool packs_tokens = false;        ///< mpt: attn_impl flash, which packs tokens around attention; else triton
  bool compiled = false;            ///< torch.compile of each block (llama_compiled.hpp; else fuse.hpp, an estimate)
  std::uint32_t default_batch = 1;  ///< per GPU, where the settings name none
  std::uint32_t default_seq = 2048;
  std::vector<Unit> units;  ///< states_only: root first
  /// Patterns (name_pattern.hpp) of the modules and parameters that are not trained: requires_grad_(False).
  std::vector<std::string> frozen = {};
  LoraConfig lora = {};  ///< with it all of the model's own parameters are frozen
  /// Whether layer `index`, from 0, has experts (Qwen3MoeDecoderLayer.__init__).
  [[nodiscard]] bool has_experts(std::uint32_t index) const {
    return experts > 0 && (index + 1) % sparse_step == 0 &&
           std::find(dense_layers.begin(), dense_layers.end(), index) == dense_layers.end();
  }
  bool operator==(const ModelConfig&) const = default;
};

}  // namespace foreshard
