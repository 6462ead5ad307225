// Router and experts of Mixtral, Qwen3-MoE and DeepSeek-V3 as Hugging Face's eager code runs them: the router
// (hf_routing.hpp), tokens sorted by expert, one grouped GEMM for all experts (experts_implementation "grouped_mm", the
// library's default).
//
// Source: modeling_mixtral.py (MixtralExperts), modeling_deepseek_v3.py (DeepseekV3NaiveMoe), integrations/moe.py
// (grouped_mm_experts_forward) of transformers 5.17; ATen of PyTorch 2.11. What the experts ask for does not depend on
// the routing; their time is that of nearly balanced routing. Who: hf_decoder_family.cpp; expert_parallel.cpp puts an
// exchange between router and products.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/models/hf_decoder_block.hpp"

namespace foreshard::model {

struct HfExperts {
  Tensor router;   ///< experts × dim
  Tensor gate_up;  ///< experts × 2·ffn × dim; under expert parallelism those of this rank, as is `down`
  Tensor down;     ///< experts × dim × ffn
  std::uint64_t per_token = 2;
  bool adds_up = true;        ///< the scores of a token are divided by their sum (norm_topk_prob)
  bool casts_scores = false;  ///< they are cast to the tokens' dtype (Qwen3MoeTopKRouter); else they stay float32
  std::uint32_t groups = 0;   ///< n_group of DeepSeek-V3's router; 0: a softmax over all experts
  std::uint32_t groups_per_token = 0;
  double scale = 1;                          ///< routed_scaling_factor; no request depends on it
  std::optional<HfFeedForward> shared = {};  ///< experts that every token passes
};

/// The experts' part of a block whose experts lie on several ranks: `rows` sorted by expert and how many each of all
/// experts has, to as many rows in the same order.
using RunRows = std::function<Tensor(const Tensor& rows, const Tensor& counts)>;

/// …SparseMoeBlock.forward on batch × length × dim. `elsewhere`: runs the rows instead of this rank's own products.
[[nodiscard]] Tensor hf_experts(Tape& tape, const HfExperts& weights, const Tensor& x, const RunRows& elsewhere = {});

/// Rows sorted by expert through this rank's experts: both grouped products. `ends`: of each expert's rows, int32.
/// `absent`: of each row whether its expert is none of these; results of such rows are made zero. Null: no row is.
[[nodiscard]] Tensor hf_grouped_products(Tape& tape, const HfExperts& weights, const Tensor& rows, const Tensor& ends,
                                         const Tensor& absent = nullptr);

}  // namespace foreshard::model
