// Attention by parts: what F.scaled_dot_product_attention does where no fused kernel takes its operands.
//
// Who: attention_ops.cpp. No reference run has it: its memory is an estimate (generate.cpp says so).
#pragma once

#include "core/models/ops.hpp"

namespace foreshard::model {

/// aten::_scaled_dot_product_attention_math (attention.cpp, PyTorch 2.11), without dropout. With fewer key heads than
/// query heads keys and values are repeated, as enable_gqa has it.
[[nodiscard]] Tensor math_attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, bool causal);

}  // namespace foreshard::model
