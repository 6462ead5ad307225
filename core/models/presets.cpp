#include "core/models/presets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/suggest.hpp"

namespace foreshard {
namespace {

struct Preset {
  std::string_view name;
  ModelFamily family;
  std::uint32_t layers;
  std::uint64_t dim;
  std::uint64_t ffn;
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint64_t vocab;
  std::uint32_t batch;
  std::uint32_t seq;
};

// mlp: pytorch#147168. llama-*: the reference runs' script. torch-transformer: ModelArgs of
// torch/testing/_internal/distributed/_tensor/common_dtensor.py (n_heads 4, vocab 8, max_seq_len = seq) at dim 4096.
// llama2-*: "Llama 2" (2023) and its checkpoints' configurations; 34b with Code Llama 34B's. mpt-*: llm-foundry,
// scripts/train/yamls/pretrain, whose models have biases and heads of 128 (docs/data/published_throughput.md).
// llama3-*: "The Llama 3 Herd of Models" (2024), table 3; vocabulary 128,256; sequences of 8,192 as in pre-training.
constexpr std::array kPresets{
    Preset{"mlp", ModelFamily::mlp, 4, 10240, 10240, 1, 1, 0, 4, 1},
    Preset{"llama-tiny", ModelFamily::llama, 8, 1024, 2816, 16, 4, 32000, 4, 2048},
    Preset{"llama-1b", ModelFamily::llama, 16, 2048, 8192, 32, 8, 128256, 4, 2048},
    Preset{"llama-3b", ModelFamily::llama, 28, 3072, 8192, 24, 8, 128256, 4, 2048},
    Preset{"llama-8b", ModelFamily::llama, 32, 4096, 14336, 32, 8, 128256, 4, 2048},
    Preset{"torch-transformer", ModelFamily::torch_transformer, 2, 4096, 16384, 4, 4, 8, 4, 64},
    Preset{"llama3-8b", ModelFamily::llama, 32, 4096, 14336, 32, 8, 128256, 1, 8192},
    Preset{"llama3-70b", ModelFamily::llama, 80, 8192, 28672, 64, 8, 128256, 1, 8192},
    Preset{"llama3-405b", ModelFamily::llama, 126, 16384, 53248, 128, 8, 128256, 1, 8192},
    Preset{"llama2-7b", ModelFamily::llama, 32, 4096, 11008, 32, 32, 32000, 1, 4096},
    Preset{"llama2-13b", ModelFamily::llama, 40, 5120, 13824, 40, 40, 32000, 1, 4096},
    Preset{"llama2-34b", ModelFamily::llama, 48, 8192, 22016, 64, 8, 32000, 1, 4096},
    Preset{"llama2-70b", ModelFamily::llama, 80, 8192, 28672, 64, 8, 32000, 1, 4096},
    Preset{"mpt-760m", ModelFamily::mpt, 24, 1536, 6144, 12, 12, 50368, 8, 2048},
    Preset{"mpt-1b", ModelFamily::mpt, 24, 2048, 8192, 16, 16, 50368, 8, 2048},
    Preset{"mpt-3b", ModelFamily::mpt, 32, 2560, 10240, 20, 20, 50368, 8, 2048},
    Preset{"mpt-7b", ModelFamily::mpt, 32, 4096, 16384, 32, 32, 50368, 4, 2048},
    Preset{"mpt-13b", ModelFamily::mpt, 40, 5120, 20480, 40, 40, 50368, 2, 2048},
    Preset{"mpt-30b", ModelFamily::mpt, 48, 7168, 28672, 56, 56, 50368, 2, 2048},
    Preset{"mpt-70b", ModelFamily::mpt, 80, 8192, 32768, 64, 64, 50368, 2, 2048},
};

/// DeepSeek-V3's kind, as Hugging Face runs it.
struct LatentPreset {
  std::string_view name;
  std::uint32_t layers;
  std::uint32_t dense_layers;  ///< the first ones
  std::uint64_t dim;
  std::uint64_t ffn;  ///< of an expert
  std::uint64_t dense_ffn;
  std::uint32_t heads;
  LatentAttention latent;
  std::uint32_t experts;
  std::uint32_t experts_per_token;
  std::uint32_t shared_experts;
  std::uint32_t groups;
  std::uint32_t groups_per_token;
  std::uint64_t vocab;
};

// config.json of deepseek-ai/DeepSeek-V3 (without its layer of multi-token prediction) and of
// moonshotai/Moonlight-16B-A3B; sequences of 4,096 as in pre-training.
constexpr std::array kLatentPresets{
    LatentPreset{"deepseek-v3",
                 61,
                 3,
                 7168,
                 2048,
                 18432,
                 128,
                 {.kv_rank = 512, .q_rank = 1536, .nope = 128, .rope = 64, .value = 128},
                 256,
                 8,
                 1,
                 8,
                 4,
                 129280},
    LatentPreset{"moonlight-16b",
                 27,
                 1,
                 2048,
                 1408,
                 11264,
                 16,
                 {.kv_rank = 512, .q_rank = 0, .nope = 128, .rope = 64, .value = 128},
                 64,
                 6,
                 2,
                 1,
                 1,
                 163840},
};
constexpr std::uint32_t kLatentSeq = 4096;

constexpr double kModelArgsDropout = 0.1;  ///< common_dtensor.py, ModelArgs.dropout_p

const Preset* find(std::string_view name) {
  const auto it = std::find_if(kPresets.begin(), kPresets.end(), [&](const Preset& p) { return p.name == name; });
  return it == kPresets.end() ? nullptr : &*it;
}

const LatentPreset* find_latent(std::string_view name) {
  const auto it =
      std::find_if(kLatentPresets.begin(), kLatentPresets.end(), [&](const LatentPreset& p) { return p.name == name; });
  return it == kLatentPresets.end() ? nullptr : &*it;
}

Result<ModelConfig> latent_model(const LatentPreset& p, const PresetOverrides& overrides) {
  if (overrides.dim && *overrides.dim != p.dim)
    return fail(ErrorKind::usage, fmt::format("{} has widths that do not follow from one another", p.name), "--dim",
                "write a config.json with the wanted ones");
  ModelConfig model;
  model.name = p.name;
  model.family = ModelFamily::hf_deepseek_v3;
  model.layers = overrides.layers.value_or(p.layers);
  model.dim = p.dim;
  model.ffn = p.ffn;
  model.dense_ffn = p.dense_ffn;
  model.heads = model.kv_heads = p.heads;
  model.latent = p.latent;
  model.head_dim = p.latent.query();
  model.vocab = p.vocab;
  model.experts = p.experts;
  model.experts_per_token = p.experts_per_token;
  model.shared_experts = p.shared_experts;
  model.expert_groups = p.groups;
  model.expert_groups_per_token = p.groups_per_token;
  for (std::uint32_t i = 0; i < p.dense_layers; ++i) model.dense_layers.push_back(i);
  model.default_seq = kLatentSeq;
  return model;
}

Result<void> set_dim(ModelConfig& model, const Preset& p, std::uint64_t dim) {
  const auto refuse = [&](std::uint64_t step) {
    return fail(ErrorKind::usage, fmt::format("dim {} does not fit {}", dim, p.name), "--dim",
                fmt::format("use a multiple of {}", step));
  };
  if (p.family == ModelFamily::mlp) {
    model.ffn = dim;
  } else if (p.family == ModelFamily::torch_transformer) {
    if (dim % p.heads != 0) return refuse(p.heads);
    model.ffn = 4 * dim;
    model.head_dim = dim / p.heads;
  } else {
    const std::uint64_t step = model.head_dim * (p.heads / p.kv_heads);
    if (dim % step != 0) return refuse(step);
    model.heads = static_cast<std::uint32_t>(dim / model.head_dim);
    model.kv_heads = static_cast<std::uint32_t>(dim / step);
    constexpr std::uint64_t kMultiple = 256;  // Llama's multiple_of
    model.ffn = round_up(p.ffn * dim / p.dim, kMultiple);
  }
  model.dim = dim;
  return {};
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& p : kPresets) names.emplace_back(p.name);
  for (const LatentPreset& p : kLatentPresets) names.emplace_back(p.name);
  return names;
}

bool is_preset(std::string_view name) {
  return find(name) != nullptr || find_latent(name) != nullptr;
}

namespace {

/// Overrides that fit no preset of that kind.
Result<void> check_overrides(const PresetOverrides& overrides, std::string_view name, bool dropout) {
  constexpr std::uint64_t kMaxWidth = std::uint64_t{1} << 22;  // as of a config.json's hidden_size
  if (overrides.layers && *overrides.layers == 0)
    return fail(ErrorKind::usage, "a model needs at least one layer", "--layers");
  if (overrides.dim && *overrides.dim == 0) return fail(ErrorKind::usage, "--dim must be at least 1", "--dim");
  if (overrides.dim && *overrides.dim > kMaxWidth)
    return fail(ErrorKind::usage, fmt::format("a width of {} is out of range: at most {}", *overrides.dim, kMaxWidth),
                "--dim");
  if (overrides.dropout && !dropout)
    return fail(ErrorKind::usage, fmt::format("{} has no dropout", name), "--dropout",
                "only the preset torch-transformer has one");
  if (overrides.dropout && !(*overrides.dropout >= 0 && *overrides.dropout < 1))
    return fail(ErrorKind::usage, "a dropout is a probability below 1", "--dropout");
  return {};
}

}  // namespace

Result<ModelConfig> preset(std::string_view name, const PresetOverrides& overrides) {
  const Preset* p = find(name);
  const LatentPreset* latent = find_latent(name);
  if (p == nullptr && latent == nullptr) {
    const std::vector<std::string> names = preset_names();
    const std::vector<std::string_view> known(names.begin(), names.end());
    return fail(ErrorKind::usage, fmt::format("there is no preset '{}'", name), {}, suggestion(name, known));
  }
  FORESHARD_TRY(check_overrides(overrides, name, p != nullptr && p->family == ModelFamily::torch_transformer));
  if (latent != nullptr) return latent_model(*latent, overrides);
  ModelConfig model;
  model.name = p->name;
  model.family = p->family;
  model.layers = overrides.layers.value_or(p->layers);
  model.dim = p->dim;
  model.ffn = p->ffn;
  model.heads = p->heads;
  model.kv_heads = p->kv_heads;
  model.head_dim = p->dim / p->heads;
  model.vocab = p->vocab;
  model.tied_embedding = p->family == ModelFamily::torch_transformer;
  if (p->family == ModelFamily::torch_transformer) model.dropout = overrides.dropout.value_or(kModelArgsDropout);
  if (p->family == ModelFamily::mpt) {
    model.tied_embedding = true;
    model.attention_bias = true;
    model.mlp_bias = true;
    model.positions = p->seq;
  }
  model.default_batch = p->batch;
  model.default_seq = p->seq;
  if (overrides.dim && *overrides.dim != p->dim) FORESHARD_TRY(set_dim(model, *p, *overrides.dim));
  return model;
}

}  // namespace foreshard
