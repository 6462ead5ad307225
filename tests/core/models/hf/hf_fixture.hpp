// Small configurations of each Hugging Face family, and what tests read off a generated step.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/models/generate.hpp"
#include "tests/catch.hpp"

namespace foreshard::model::testing {

inline ModelConfig small_config(ModelFamily family) {
  ModelConfig c;
  c.name = "small";
  c.family = family;
  c.layers = 2;
  c.dim = 256;
  c.ffn = 512;
  c.heads = 4;
  c.kv_heads = family == ModelFamily::hf_gpt2 ? 4 : 2;
  c.head_dim = 64;
  c.vocab = 1024;
  if (family == ModelFamily::hf_gpt2) {
    c.positions = 128;
    c.attention_bias = c.mlp_bias = true;
  }
  if (family == ModelFamily::hf_qwen2) c.attention_bias = true;
  if (family == ModelFamily::hf_mixtral || family == ModelFamily::hf_qwen3_moe) {
    c.experts = 4;
    c.experts_per_token = 2;
  }
  if (family == ModelFamily::hf_deepseek_v3) {
    c.kv_heads = c.heads;
    c.latent = {.kv_rank = 128, .q_rank = 192, .nope = 64, .rope = 32, .value = 64};
    c.head_dim = c.latent.query();
    c.experts = 8;
    c.experts_per_token = 2;
    c.shared_experts = 1;
    c.expert_groups = 4;
    c.expert_groups_per_token = 2;
    c.dense_ffn = 640;
    c.dense_layers = {0};
  }
  return c;
}

inline Settings small_settings() {
  Settings s;
  s.gpus = 4;
  s.batch = 2;
  s.seq = 64;
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  return s;
}

inline Workload generated(const ModelConfig& config, const Settings& settings) {
  auto workload = generate(config, settings, {}, 132);
  INFO((workload ? "" : workload.error().text()));
  REQUIRE(workload);
  return std::move(*workload);
}

/// What one program asks for.
struct Account {
  std::map<std::uint32_t, Bytes> live;               ///< allocated and not freed: by tensor
  std::map<std::uint32_t, std::uint32_t> gradients;  ///< how often each parameter got one
  std::map<std::string, std::uint32_t> kernels;      ///< by label
  Bytes peak = 0;
  std::uint32_t synchronisations = 0;
  std::uint64_t products = 0;  ///< multiply-adds of all GEMMs
};

inline Account account(const Workload& workload, const Program& program) {
  Account a;
  Bytes now = 0;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::alloc) {
      REQUIRE(a.live.emplace(op.tensor.value, op.size.bytes).second);
      now += op.size.bytes;
      a.peak = std::max(a.peak, now);
      if (op.gradient_of.valid()) ++a.gradients[op.gradient_of.value];
    } else if (op.kind == OpKind::free) {
      const auto at = a.live.find(op.tensor.value);
      REQUIRE(at != a.live.end());
      now -= at->second;
      a.live.erase(at);
    } else if (op.kind == OpKind::kernel) {
      ++a.kernels[workload.labels.text(op.kernel.label)];
      const KernelMath& m = op.kernel.math;
      if (m.kind == KernelMath::Kind::gemm) a.products += m.batch * m.m * m.n * m.k;
    } else if (op.kind == OpKind::synchronize) {
      ++a.synchronisations;
    }
  }
  return a;
}

inline std::size_t parameter_count(const Workload& workload) {
  std::size_t n = 0;
  for (const Unit& unit : workload.units) n += unit.parameters.size();
  return n;
}

inline std::uint64_t parameter_elements(const Workload& workload) {
  std::uint64_t n = 0;
  for (const Unit& unit : workload.units)
    for (const Parameter& p : unit.parameters) n += p.numel();
  return n;
}

/// Each parameter has one gradient, FSDP's alone stay, and hooks stand in the order of a step.
inline void check_step(const Workload& workload, const Program& step) {
  const Account a = account(workload, step);
  CHECK(a.gradients.size() == parameter_count(workload));
  for (const auto& [parameter, times] : a.gradients) {
    INFO("parameter " << parameter);
    CHECK(times == 1);
  }
  std::vector<std::pair<Hook, std::uint32_t>> hooks;
  for (const Op& op : step.ops)
    if (op.kind == OpKind::hook && op.unit.valid()) hooks.emplace_back(op.hook, op.unit.value);
  std::vector<std::pair<Hook, std::uint32_t>> wanted{{Hook::pre_forward, 0}};
  const auto units = static_cast<std::uint32_t>(workload.units.size());
  for (std::uint32_t u = 1; u < units; ++u) {
    wanted.emplace_back(Hook::pre_forward, u);
    wanted.emplace_back(Hook::post_forward, u);
  }
  wanted.emplace_back(Hook::post_forward, 0);
  wanted.emplace_back(Hook::pre_backward, 0);
  for (std::uint32_t u = units; u-- > 1;) {
    wanted.emplace_back(Hook::pre_backward, u);
    wanted.emplace_back(Hook::post_backward, u);
  }
  CHECK(hooks == wanted);
}

}  // namespace foreshard::model::testing
