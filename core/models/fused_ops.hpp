// foreshard's own kernels as ops on a tape (`--kernels fused`): each forward and each backward is one launch, and
// nothing is kept for backward but what is named here. Ops: core/kernel/kernel.hpp.
//
// Who: the fused forms of the plain families. Arguments are handles that the caller keeps; results are new handles.
#pragma once

#include "core/models/tape.hpp"

namespace foreshard::model {

/// Products of one matrix with several weights [out, in], as one autograd node: the gradients of `x` are added up
/// inside the GEMMs (beta = 1), latest product first; each weight's gradient comes before it, as in eager
/// code. `x` [rows, in]. Keeps x.
[[nodiscard]] Tensors joined_linear(Tape& tape, const Tensor& x, const Tensors& weights);

struct AddedNorm {
  Tensor sum;  ///< x + residual, or x where there is no residual
  Tensor out;  ///< its RMSNorm
};
/// Residual addition and RMSNorm in one pass; in backward the gradient of the sum's other use joins in. `residual` may
/// be null. Keeps the sum and one float32 a row.
[[nodiscard]] AddedNorm add_rms_norm(Tape& tape, const Tensor& x, const Tensor& residual, const Tensor& weight);

/// Rotary embedding of batch × length × heads × head_dim with tables in float32. Keeps nothing.
[[nodiscard]] Tensor fused_rope(Tape& tape, const Tensor& x, const Tensor& cos, const Tensor& sin);

/// Causal attention on batch × heads × length × head_dim of any dtype, with fewer key heads than query heads or not, by
/// kernels that keep no scores: the result, laid out as q, and one float32 a row. Keeps those and the operands.
[[nodiscard]] Tensor own_attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v);

/// silu(gate) × up. Keeps gate and up; the next product keeps the result.
[[nodiscard]] Tensor swiglu(Tape& tape, const Tensor& gate, const Tensor& up);

/// Mean cross-entropy of logits in their own dtype; their gradient (for a loss that backward() is called on) is written
/// over them, so nobody else may read them afterwards. The loss is float32.
[[nodiscard]] Tensor fused_cross_entropy(Tape& tape, const Tensor& logits, const Tensor& target);

}  // namespace foreshard::model
