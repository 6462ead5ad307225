// Which experts a token goes to, as Hugging Face's eager code works it out: a softmax over all experts (Mixtral,
// Qwen3-MoE), or the best experts of the best groups (DeepSeek-V3).
//
// Source: modeling_mixtral.py (MixtralTopKRouter), modeling_qwen3_moe.py (Qwen3MoeTopKRouter), modeling_deepseek_v3.py
// (DeepseekV3TopkRouter.forward) of transformers 5.17. Who: hf_experts.cpp. Not for other rooms.
#pragma once

#include "core/models/hf_experts.hpp"

namespace foreshard::model {

struct Routing {
  Tensor logits;   ///< tokens × experts
  Tensor scores;   ///< tokens × k, float32
  Tensor experts;  ///< as many, int64
};

/// `tokens`: tokens × dim.
[[nodiscard]] Routing hf_route(Tape& tape, const HfExperts& weights, const Tensor& tokens);

}  // namespace foreshard::model
