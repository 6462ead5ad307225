// A decoder block of Llama's kind as Hugging Face's eager code runs it: Llama, Qwen2, Qwen3, and Mixtral's attention.
//
// Source: modeling_llama.py, modeling_qwen2.py, modeling_qwen3.py (transformers 5), integrations/sdpa_attention.py.
// Who: hf_decoder_family.cpp. Not for other rooms.
#pragma once

#include "core/models/hf_layers.hpp"
#include "core/models/model_config.hpp"

namespace foreshard::model {

/// A linear layer's parameters; `bias` is null where it has none.
struct HfLinear {
  Tensor weight;
  Tensor bias;
};

struct HfAttention {
  HfLinear q;
  HfLinear k;
  HfLinear v;
  HfLinear o;
  Tensor q_norm;  ///< Qwen3; null elsewhere
  Tensor k_norm;
};

struct HfFeedForward {
  HfLinear gate;
  HfLinear up;
  HfLinear down;
};

/// q_proj … o_proj with rotary embedding and grouped heads, on batch × length × dim.
[[nodiscard]] Tensor hf_attention(Tape& tape, const ModelConfig& model, const HfAttention& weights, const Tensor& x,
                                  const RotaryTables& tables);

/// down(silu(gate(x)) * up(x))
[[nodiscard]] Tensor hf_feed_forward(Tape& tape, const HfFeedForward& weights, const Tensor& x);

}  // namespace foreshard::model
