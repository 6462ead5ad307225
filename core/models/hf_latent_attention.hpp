// Multi-head latent attention as Hugging Face's eager code runs it: DeepSeek-V3.
//
// Source: modeling_deepseek_v3.py (DeepseekV3Attention, apply_rotary_pos_emb_interleave) of transformers 5.17. Recorded
// with interleaved pairs; with rope_interleave false the other rotary embedding is read from the source.
// Who: hf_decoder_family.cpp. Not for other rooms.
#pragma once

#include "core/models/hf_decoder_block.hpp"

namespace foreshard::model {

struct HfLatentAttention {
  HfLinear q;  ///< q_proj; without a weight where q has a rank: then q_a, its norm and q_b
  HfLinear q_a;
  Tensor q_a_norm;
  HfLinear q_b;
  HfLinear kv_a;  ///< kv_a_proj_with_mqa: rank and rotary part of k
  Tensor kv_a_norm;
  HfLinear kv_b;  ///< of each head k's other part and v
  HfLinear o;
};

/// DeepseekV3Attention.forward on batch × length × dim. `tables`: of the rotary part's width.
[[nodiscard]] Tensor hf_latent_attention(Tape& tape, const ModelConfig& model, const HfLatentAttention& weights,
                                         const Tensor& x, const RotaryTables& tables);

}  // namespace foreshard::model
