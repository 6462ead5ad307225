// Mixtral's router and experts as Hugging Face's eager code runs them: top-k over a softmax in float32, tokens sorted
// by expert, one grouped GEMM for all experts (experts_implementation "grouped_mm", the library's default).
//
// Source: modeling_mixtral.py (MixtralTopKRouter, MixtralExperts), integrations/moe.py (grouped_mm_experts_forward) of
// transformers 5; ATen of PyTorch 2.11. No reference run has a mixture of experts: requests are derived, not compared.
// What the experts ask for does not depend on the routing; their time is that of balanced routing. Who:
// hf_decoder_family.cpp.
#pragma once

#include <cstdint>

#include "core/models/ops.hpp"

namespace foreshard::model {

struct HfExperts {
  Tensor router;   ///< experts × dim
  Tensor gate_up;  ///< experts × 2·ffn × dim
  Tensor down;     ///< experts × dim × ffn
  std::uint64_t per_token = 2;
};

/// MixtralSparseMoeBlock.forward on batch × length × dim.
[[nodiscard]] Tensor hf_experts(Tape& tape, const HfExperts& weights, const Tensor& x);

}  // namespace foreshard::model
