#include "traces/model_files/hf_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/base/strict_json.hpp"
#include "core/base/suggest.hpp"
#include "core/models/limits.hpp"
#include "traces/files/text_file.hpp"
#include "traces/model_files/config_keys.hpp"

namespace foreshard::traces {
namespace {

// Nobody trains beyond these; a larger number is a slip of the pen, and op lists would grow without bound. Their
// product is bounded by check_parameters().
constexpr std::uint64_t kMaxWidth = std::uint64_t{1} << 22;
constexpr std::uint64_t kMaxVocab = std::uint64_t{1} << 26;
constexpr std::uint64_t kMaxHeads = std::uint64_t{1} << 16;
constexpr std::uint64_t kMaxExperts = 4096;
constexpr std::uint64_t kMaxPositions = std::uint64_t{1} << 31;
constexpr Bytes kLargestFile = 4 * kMiB;
constexpr std::uint32_t kUsualSeq = 2048;

/// A model_type: its generator (core/models/generate.cpp) and what its config.json leaves open. Defaults:
/// transformers 4.57, the config class's __init__. mistral is Llama without biases (modeling_mistral.py).
struct ModelType {
  std::string_view type;
  ModelFamily family;
  std::uint32_t kv_heads = 0;   ///< default of num_key_value_heads; 0: as many as query heads
  std::uint64_t head_dim = 0;   ///< default; 0: hidden_size / heads
  bool bias_key = false;        ///< attention_bias is read
  bool always_bias = false;     ///< q, k, v have biases whatever the configuration says (modeling_qwen2.py)
  bool tied = false;            ///< default of tie_word_embeddings
  std::string_view activation;  ///< the one that the generator knows, and the default
  std::uint32_t window = 0;     ///< default of sliding_window where the class has that key; 0: null
};

// gpt2 has no tie_word_embeddings of its own: PretrainedConfig's True holds.
constexpr std::array kModelTypes{
    ModelType{"llama", ModelFamily::hf_llama, 0, 0, true, false, false, "silu"},
    ModelType{"mistral", ModelFamily::hf_llama, 8, 0, false, false, false, "silu", 4096},
    ModelType{"qwen2", ModelFamily::hf_qwen2, 32, 0, false, true, false, "silu", 4096},
    ModelType{"qwen3", ModelFamily::hf_qwen3, 32, 128, true, false, false, "silu", 4096},
    ModelType{"mixtral", ModelFamily::hf_mixtral, 8, 0, false, false, false, "silu"},
    ModelType{"qwen3_moe", ModelFamily::hf_qwen3_moe, 4, 0, true, false, false, "silu", 4096},
    ModelType{"deepseek_v3", ModelFamily::hf_deepseek_v3, 0, 0, true, false, false, "silu"},
    ModelType{"gpt2", ModelFamily::hf_gpt2, 0, 0, false, true, true, "gelu_new"},
};

constexpr auto kTypes = [] {
  std::array<std::string_view, kModelTypes.size()> types;
  std::transform(kModelTypes.begin(), kModelTypes.end(), types.begin(),
                 [](const ModelType& family) { return family.type; });
  return types;
}();

constexpr std::string_view kInstead =
    "what works for any model: its safetensors file or folder (memory of the states is exact, compute is estimated), "
    "a recorded step (foreshard import), or a workload file (docs/sources.md)";

Result<const ModelType*> find_model_type(ConfigKeys& keys) {
  const auto type = keys.word("model_type");
  if (!type && keys.has("text_config"))
    return fail(ErrorKind::usage, "is a model of several parts (text_config): no generator knows it", keys.name(),
                std::string(kInstead));
  if (!type)
    return fail(ErrorKind::input, "the key 'model_type' is missing: is this a Hugging Face config.json?", keys.name(),
                fmt::format("known: {}", fmt::join(kTypes, ", ")));
  for (const ModelType& family : kModelTypes)
    if (family.type == *type) return &family;
  if (*type == "deepseek_v2")
    return fail(ErrorKind::usage, "deepseek_v2: its rotary embedding and its router are not modelled (deepseek_v3 is)",
                keys.name() + ", model_type", std::string(kInstead));
  const auto near = nearest(*type, kTypes);
  return fail(ErrorKind::usage, fmt::format("no generator knows the model_type '{}'", type->substr(0, 80)),
              keys.name() + ", model_type",
              fmt::format("{}known: {}; {}", near ? "did you mean '" + *near + "'? " : std::string(),
                          fmt::join(kTypes, ", "), kInstead));
}

void read_dtype(ConfigKeys& keys, ModelConfig& model) {
  // torch_dtype until transformers 4.55, dtype since; absent: torch.get_default_dtype().
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto text = keys.word(key);
    if (!text) continue;
    std::string_view word = *text;
    if (word.starts_with("torch.")) word.remove_prefix(6);
    const auto dtype = parse_dtype(word);
    if (dtype && (*dtype == DType::float32 || *dtype == DType::bfloat16 || *dtype == DType::float16))
      model.dtype = *dtype;
    else
      keys.refuse(key, fmt::format("'{}' is no type that parameters are trained in", text->substr(0, 80)),
                  "known: float32, bfloat16, float16");
    return;
  }
}

void read_activation(ConfigKeys& keys, const ModelType& family, const char* key) {
  const auto word = keys.word(key);
  if (!word || *word == family.activation || (family.activation == "silu" && *word == "swish")) return;
  keys.refuse(key,
              fmt::format("the activation '{}' has other temporaries than '{}', the one that is known for {}",
                          word->substr(0, 80), family.activation, family.type),
              std::string(kInstead), ErrorKind::usage);
}

void read_gpt2(ConfigKeys& keys, ModelConfig& model) {
  // attribute_map of GPT2Config: both spellings are read.
  model.layers = static_cast<std::uint32_t>(keys.size({"n_layer", "num_hidden_layers"}, model::kMaxLayers));
  model.dim = keys.size({"n_embd", "hidden_size"}, kMaxWidth);
  model.heads = static_cast<std::uint32_t>(keys.size({"n_head", "num_attention_heads"}, kMaxHeads));
  model.kv_heads = model.heads;
  model.vocab = keys.size({"vocab_size"}, kMaxVocab);
  model.positions = keys.size_or({"n_positions", "max_position_embeddings"}, kMaxPositions, 1024);
  model.ffn = keys.size_or({"n_inner"}, kMaxWidth, 4 * model.dim);
  model.mlp_bias = true;  // Conv1D always has one
}

/// The key that says how many experts there are, and the library's defaults.
struct ExpertKeys {
  std::string_view count;
  std::uint64_t experts = 0;
  std::uint64_t per_token = 0;
};

void read_experts(ConfigKeys& keys, const ExpertKeys& experts, ModelConfig& model) {
  // transformers 5 writes num_local_experts for either (attribute_map).
  const auto count = keys.size_or({experts.count, "num_local_experts"}, kMaxExperts, experts.experts);
  model.experts = static_cast<std::uint32_t>(count);
  const auto per_token = keys.size_or({"num_experts_per_tok"}, kMaxExperts, experts.per_token);
  model.experts_per_token = static_cast<std::uint32_t>(per_token);
  if (model.experts_per_token > model.experts)
    keys.refuse("num_experts_per_tok", fmt::format("{} experts a token are more than the {} of {}",
                                                   model.experts_per_token, model.experts, experts.count));
}

/// Whether Qwen's layers have a window: use_sliding_window says so, of qwen2 and qwen3 for those from max_window_layers
/// on (configuration_qwen2.py: layer_types), of qwen3_moe for all (modeling_qwen3_moe.py: its one mask).
bool windowed_qwen(ConfigKeys& keys, const ModelType& family, const ModelConfig& model) {
  if (!keys.flag_or("use_sliding_window", false)) return false;
  constexpr double kUsualFirst = 28;
  return family.family == ModelFamily::hf_qwen3_moe || keys.number_or("max_window_layers", kUsualFirst) < model.layers;
}

/// null says that there is none; absent is the default.
void read_window(ConfigKeys& keys, const ModelType& family, ModelConfig& model) {
  if (family.type.starts_with("qwen") && !windowed_qwen(keys, family, model)) return;
  if (keys.is_null("sliding_window")) return;
  model.sliding_window = static_cast<std::uint32_t>(keys.size_or({"sliding_window"}, kMaxPositions, family.window));
}

/// Defaults of DeepseekV3Config (transformers 4.57).
void read_deepseek(ConfigKeys& keys, ModelConfig& model) {
  LatentAttention& latent = model.latent;
  latent.kv_rank = keys.size_or({"kv_lora_rank"}, kMaxWidth, 512);
  // null says that q has no rank; absent is the default.
  if (!keys.is_null("q_lora_rank")) latent.q_rank = keys.size_or({"q_lora_rank"}, kMaxWidth, 1536);
  latent.nope = keys.size_or({"qk_nope_head_dim"}, kMaxWidth, 128);
  latent.rope = keys.size_or({"qk_rope_head_dim"}, kMaxWidth, 64);
  latent.value = keys.size_or({"v_head_dim"}, kMaxWidth, 128);
  latent.interleaves = keys.flag_or("rope_interleave", true);
  model.head_dim = latent.query();
  if (latent.rope % 2 != 0)
    keys.refuse("qk_rope_head_dim", fmt::format("{} is odd: rotary embedding turns pairs", latent.rope));
  if (model.kv_heads != model.heads)
    keys.refuse("num_key_value_heads",
                fmt::format("{}: latent attention makes keys of all {} heads", model.kv_heads, model.heads),
                "leave it out, or give as many");
  read_experts(keys, {"n_routed_experts", 256, 8}, model);
  model.dense_ffn = model.ffn;
  model.ffn = keys.size_or({"moe_intermediate_size"}, kMaxWidth, 2048);
  model.shared_experts = static_cast<std::uint32_t>(keys.size_or({"n_shared_experts"}, kMaxExperts, 1));
  model.expert_groups = static_cast<std::uint32_t>(keys.size_or({"n_group"}, kMaxExperts, 8));
  model.expert_groups_per_token = static_cast<std::uint32_t>(keys.size_or({"topk_group"}, kMaxExperts, 4));
  if (!keys.failed() && (model.experts % model.expert_groups != 0 || model.experts < 2 * model.expert_groups))
    keys.refuse("n_group", fmt::format("{} groups of {} experts: a group is ranked by its best two",
                                       model.expert_groups, model.experts));
  if (model.expert_groups_per_token > model.expert_groups)
    keys.refuse("topk_group", fmt::format("{} of {} groups", model.expert_groups_per_token, model.expert_groups));
  const double dense = keys.number_or("first_k_dense_replace", 3);
  for (std::uint32_t i = 0; i < model.layers && i < dense; ++i) model.dense_layers.push_back(i);
  model.scores_add_up = keys.flag_or("norm_topk_prob", true);
}

void read_decoder(ConfigKeys& keys, const ModelType& family, ModelConfig& model) {
  model.layers = static_cast<std::uint32_t>(keys.size({"num_hidden_layers"}, model::kMaxLayers));
  model.dim = keys.size({"hidden_size"}, kMaxWidth);
  model.heads = static_cast<std::uint32_t>(keys.size({"num_attention_heads"}, kMaxHeads));
  model.vocab = keys.size({"vocab_size"}, kMaxVocab);
  model.ffn = keys.size({"intermediate_size"}, kMaxWidth);
  const std::uint64_t kv_heads = family.kv_heads == 0 ? model.heads : family.kv_heads;
  model.kv_heads = static_cast<std::uint32_t>(keys.size_or({"num_key_value_heads"}, kMaxHeads, kv_heads));
  if (family.family == ModelFamily::hf_deepseek_v3) return read_deepseek(keys, model);
  model.head_dim = keys.size_or({"head_dim"}, kMaxWidth, family.head_dim);
  model.mlp_bias = family.type == "llama" && keys.flag_or("mlp_bias", false);
  if (family.window > 0 || family.type == "mixtral") read_window(keys, family, model);
  if (family.family == ModelFamily::hf_mixtral) read_experts(keys, {"num_local_experts", 8, 2}, model);
  if (family.family != ModelFamily::hf_qwen3_moe) return;
  read_experts(keys, {"num_experts", 128, 8}, model);
  model.dense_ffn = model.ffn;
  model.ffn = keys.size_or({"moe_intermediate_size"}, kMaxWidth, 768);
  model.sparse_step = static_cast<std::uint32_t>(keys.size_or({"decoder_sparse_step"}, model::kMaxLayers, 1));
  model.dense_layers = keys.places("mlp_only_layers", model.layers);
  model.scores_add_up = keys.flag_or("norm_topk_prob", false);
}

void check_heads(ConfigKeys& keys, const ModelType& family, ModelConfig& model) {
  if (keys.failed()) return;
  const bool gpt2 = family.family == ModelFamily::hf_gpt2;
  if (model.head_dim == 0) {
    if (model.dim % model.heads != 0)
      return keys.refuse(gpt2 ? "n_embd" : "hidden_size",
                         fmt::format("{} is not divisible by the {} attention heads", model.dim, model.heads),
                         gpt2 ? "" : "give head_dim where heads do not divide the width");
    model.head_dim = model.dim / model.heads;
  }
  if (model.heads % model.kv_heads != 0)
    return keys.refuse("num_key_value_heads",
                       fmt::format("{} does not divide the {} attention heads{}", model.kv_heads, model.heads,
                                   keys.has("num_key_value_heads") ? "" : " (it is absent: the library's default)"));
  if (!gpt2 && model.head_dim % 2 != 0)
    keys.refuse("head_dim", fmt::format("{} is odd: rotary embedding turns pairs", model.head_dim));
}

/// Each number may be in bounds and their product beyond: the key that makes most of it is named.
void check_parameters(ConfigKeys& keys, const ModelConfig& model) {
  if (keys.failed()) return;
  const model::ParameterCounts counts = model::parameter_counts(model);
  if (counts.all() <= model::kMaxParameters) return;
  const bool gpt2 = model.family == ModelFamily::hf_gpt2;
  const double most = std::max({counts.attention, counts.feed_forward, counts.embedding});
  const char* key = gpt2 ? "n_embd" : keys.has("head_dim") ? "head_dim" : "hidden_size";
  if (most == counts.feed_forward) key = gpt2 ? "n_inner" : "intermediate_size";
  if (most == counts.embedding) key = gpt2 && model.positions > model.vocab ? "n_positions" : "vocab_size";
  keys.refuse(key, fmt::format("the sizes together make {:.3g} parameters, more than the {:.3g} that can be planned",
                               counts.all(), model::kMaxParameters));
}

/// What the file asks for and the generators leave out.
void add_warnings(ConfigKeys& keys, const ModelType& family, ModelFile& file) {
  if (keys.has("quantization_config"))
    keys.refuse("quantization_config", "quantised weights are not trained with fully_shard",
                "use the configuration of the unquantised model", ErrorKind::usage);
  std::vector<std::string_view> dropout{"attention_dropout"};
  if (family.family == ModelFamily::hf_gpt2) dropout = {"resid_pdrop", "embd_pdrop", "attn_pdrop"};
  std::vector<std::string_view> on;
  for (const std::string_view key : dropout)
    if (keys.number_or(key, family.family == ModelFamily::hf_gpt2 ? 0.1 : 0.0) > 0) on.push_back(key);
  if (!on.empty())
    file.warnings.push_back(
        fmt::format("dropout ({}) is left out: its masks and kernels are not in the plan; "
                    "set it to 0 to compare",
                    fmt::join(on, ", ")));
  if (family.family == ModelFamily::hf_deepseek_v3 && keys.number_or("num_nextn_predict_layers", 0) > 0)
    file.warnings.emplace_back(
        "num_nextn_predict_layers is left out: multi-token prediction is not in transformers' model either");
  if (keys.number_or("router_jitter_noise", 0) > 0 && family.family == ModelFamily::hf_mixtral)
    file.warnings.emplace_back("router_jitter_noise is left out");
}

std::string model_name(ConfigKeys& keys, const std::string& given, std::string_view type) {
  if (!given.empty()) return given;
  const auto path = keys.text("_name_or_path");
  if (!path || path->empty() || path->size() > 200) return std::string(type);
  const std::string last = path->substr(path->find_last_of('/') + 1);
  return last.empty() ? std::string(type) : last;
}

}  // namespace

std::span<const std::string_view> hf_model_types() {
  return kTypes;
}

Result<ModelFile> parse_hf_config(const std::string& text, const std::string& name, const std::string& given_name) {
  auto json = parse_strict_ordered_json(text, name);
  FORESHARD_TRY(json);
  if (!json->is_object()) return fail(ErrorKind::input, "an object is needed, this is " + describe(*json), name);
  ConfigKeys keys(*json, name);
  const auto found = find_model_type(keys);
  if (keys.failed()) return tl::unexpected(keys.error());
  FORESHARD_TRY(found);
  const ModelType& family = **found;
  ModelFile file;
  ModelConfig& model = file.model;
  model.family = family.family;
  const bool gpt2 = family.family == ModelFamily::hf_gpt2;
  gpt2 ? read_gpt2(keys, model) : read_decoder(keys, family, model);
  check_heads(keys, family, model);
  check_parameters(keys, model);
  model.attention_bias = family.always_bias || (family.bias_key && keys.flag_or("attention_bias", false));
  model.tied_embedding = keys.flag_or("tie_word_embeddings", family.tied);
  read_dtype(keys, model);
  read_activation(keys, family, gpt2 ? "activation_function" : "hidden_act");
  add_warnings(keys, family, file);
  const std::uint64_t longest =
      gpt2 ? model.positions : keys.size_or({"max_position_embeddings"}, kMaxPositions, kUsualSeq);
  model.default_seq = static_cast<std::uint32_t>(std::min<std::uint64_t>(longest, kUsualSeq));
  model.name = model_name(keys, given_name, family.type);
  if (keys.failed()) return tl::unexpected(keys.error());
  if (model.tied_embedding)
    file.notes.emplace_back("tie_word_embeddings: the head uses the embedding's weight, one parameter of the root");
  return file;
}

Result<ModelFile> read_hf_config(const std::string& path, const std::string& given_name) {
  const auto text = read_text(path, kLargestFile);
  FORESHARD_TRY(text);
  return parse_hf_config(*text, path, given_name);
}

}  // namespace foreshard::traces
