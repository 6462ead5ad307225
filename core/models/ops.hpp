// The ops of eager PyTorch 2.11 on a tape: what each allocates, launches, saves and does in backward
// (derivatives.yaml; ATen's CUDA implementations). Temporaries and the order of requests are PyTorch's.
//
// Who: the families. Arguments are handles that the caller keeps; results are new handles. Labels are the ATen ops.
#pragma once

#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "core/models/tape.hpp"

namespace foreshard::model {

/// In Kernel::integers of random_* and dropout: the stream that core/step draws for a step, microbatch and rank.
inline constexpr std::int64_t kStreamOfStep = -1;
[[nodiscard]] Kernel random_tokens(std::uint64_t vocabulary);

// Views (view_ops.cpp). `dim` may be negative.
[[nodiscard]] Tensor view(Tape& tape, const Tensor& x, const Shape& shape);     ///< must be viewable
[[nodiscard]] Tensor reshape(Tape& tape, const Tensor& x, const Shape& shape);  ///< copies where it must
[[nodiscard]] Tensor unsafe_view(Tape& tape, const Tensor& x, const Shape& shape);
[[nodiscard]] Tensor transpose(Tape& tape, const Tensor& x, int a, int b);
[[nodiscard]] Tensor narrow(Tape& tape, const Tensor& x, int dim, std::uint64_t start, std::uint64_t length);
/// base[..., start:start + n].copy_(part) over the last dimension: `base` under another node (CopySlices).
[[nodiscard]] Tensor copy_into(Tape& tape, const Tensor& base, std::uint64_t start, const Tensor& part);
[[nodiscard]] Tensor every_second(Tape& tape, const Tensor& x, int dim, std::uint64_t start);  ///< x[..., start::2]
[[nodiscard]] Tensors split(Tape& tape, const Tensor& x, int dim, std::span<const std::uint64_t> sizes);
[[nodiscard]] Tensors chunk(Tape& tape, const Tensor& x, int dim, std::uint64_t chunks);
[[nodiscard]] Tensor expand(Tape& tape, const Tensor& x, const Shape& shape);
[[nodiscard]] Tensor unsqueeze(Tape& tape, const Tensor& x, int dim);
[[nodiscard]] Tensor contiguous(Tape& tape, const Tensor& x);  ///< itself, or a clone
[[nodiscard]] Tensor clone(Tape& tape, const Tensor& x);       ///< contiguous copy

// Elementwise (elementwise_ops.cpp).
[[nodiscard]] Tensor add(Tape& tape, const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor sub(Tape& tape, const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor mul(Tape& tape, const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor mul_scalar(Tape& tape, const Tensor& a, double factor);
[[nodiscard]] Tensor add_scalar(Tape& tape, const Tensor& a, double summand);
[[nodiscard]] Tensor neg(Tape& tape, const Tensor& x);
/// silu, gelu: save the input.
[[nodiscard]] Tensor activation(Tape& tape, const Tensor& x, std::string_view label);
/// tanh, sigmoid: save the result; one kernel back.
[[nodiscard]] Tensor of_result(Tape& tape, const Tensor& x, std::string_view label);
[[nodiscard]] Tensor pow(Tape& tape, const Tensor& x, int exponent);  ///< saves the input
[[nodiscard]] Tensor rsqrt(Tape& tape, const Tensor& x);              ///< saves the result
[[nodiscard]] Tensor to(Tape& tape, const Tensor& x, DType dtype);    ///< itself where it has the dtype
[[nodiscard]] Tensor cat(Tape& tape, const Tensors& parts, int dim);
/// native_dropout in training: result and mask. With p = 0 F.dropout runs the same kernel.
[[nodiscard]] Tensor dropout(Tape& tape, const Tensor& x, double p);
/// One forward kernel that no KernelOp stands for, from `inputs` to a fresh tensor without a gradient: elementwise, or
/// over the rows of the first input.
[[nodiscard]] Tensor run_kernel(Tape& tape, const Tensors& inputs, const Shape& shape, DType dtype,
                                std::string_view label, Launch kind = Launch::elementwise);

// Reductions (reduction_ops.cpp).
/// eps=None of nn.RMSNorm: that of the accumulating type, float32 for bfloat16 too (layer_norm_kernel.cu,
/// _fused_rms_norm_cuda; pytorch#173039).
inline constexpr double kRmsNormEps = std::numeric_limits<float>::epsilon();
[[nodiscard]] Tensor mean_all(Tape& tape, const Tensor& x);
[[nodiscard]] Tensor sum_all(Tape& tape, const Tensor& x);
[[nodiscard]] Tensor mean_last(Tape& tape, const Tensor& x);  ///< mean(-1, keepdim=True)
[[nodiscard]] Tensor layer_norm(Tape& tape, const Tensor& x, const Tensor& weight, const Tensor& bias);
[[nodiscard]] Tensor rms_norm(Tape& tape, const Tensor& x, const Tensor& weight);  ///< fused, as nn.RMSNorm runs it
/// F.cross_entropy(logits, target): mean over rows. `target` is int64.
[[nodiscard]] Tensor cross_entropy(Tape& tape, const Tensor& logits, const Tensor& target);

// GEMMs (matmul_ops.cpp).
[[nodiscard]] Tensor mm(Tape& tape, const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor addmm(Tape& tape, const Tensor& bias, const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor bmm(Tape& tape, const Tensor& a, const Tensor& b);  ///< batches of matrices
/// F.linear; `bias` may be null. Input of any rank ≥ 2.
[[nodiscard]] Tensor linear(Tape& tape, const Tensor& x, const Tensor& weight, const Tensor& bias = nullptr);
/// nn.Linear.forward, or peft.tuners.lora.Linear's where the weight has a low-rank update (linear_layer.cpp).
[[nodiscard]] Tensor linear_layer(Tape& tape, const Tensor& x, const Tensor& weight, const Tensor& bias = nullptr);

// Attention and embedding.
struct Attention {
  bool causal = true;
  double dropout = 0;  ///< dropout_p: changes no request; with it the Kernel is not known
};
/// F.scaled_dot_product_attention on batch × heads × length × head_dim; fewer key heads than query heads mean
/// enable_gqa. Back end as 2.11 chooses on sm90 (attention_ops.cpp).
[[nodiscard]] Tensor attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, const Attention& how);
/// What its backward reads.
struct AttentionKept {
  Tensor k, q, v, logsumexp, result;
};
/// Causal attention of 16-bit types without autograd, as a compiled graph calls it: the result, its log-sum-exp, and
/// two tensors of the random state; and the gradients of q, k and v.
[[nodiscard]] Tensors attention_forward(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v);
[[nodiscard]] Tensors attention_backward(Tape& tape, const AttentionKept& kept, const Tensor& gradient);
/// `sorts`: many indices are sorted before their gradients are summed, with temporaries, as ATen does it; else one
/// kernel sums them.
[[nodiscard]] Tensor embedding(Tape& tape, const Tensor& weight, const Tensor& indices, bool sorts = true);

}  // namespace foreshard::model
