// The description of a kernel: an operation on tensors. What it costs follows from it (kernel_cost.hpp).
//
// Who: core/models describes each launch of a generated program by one; core/step binds its operands to addresses,
// describes FSDP2's sections and the optimizer, and hands them to Device::launch; gpu/kernels runs them,
// tests/contract/host_math.hpp on the host as the reference. Kernels that are known by their time and class alone
// (captures, files) have a KernelWork and no description.
// Plain data. Numerics: arithmetic in float32 unless all floating operands are float64, results rounded once to the
// output's dtype (ATen's opmath rule); sums accumulate in float32.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/quantity.hpp"

namespace foreshard {

/// The operation. Operands are listed outputs first ("out; in"), in this order; one in [] may be absent
/// (TensorView::absent). Views of "elementwise" have any strides and broadcast to the output's shape.
enum class KernelOp : std::uint8_t {
  fused = 0,  ///< nothing: eager PyTorch launches a kernel here, whose work is part of a neighbouring Kernel
  // Elementwise.
  fill,              ///< out;  = alpha
  copy,              ///< out; x  casts
  add,               ///< out; a, b.  alpha times b (1 for aten::add)
  sub,               ///< out; a, b
  mul,               ///< out; a, b
  neg,               ///< out; x
  mul_scalar,        ///< out; x  alpha × x
  add_scalar,        ///< out; x  x + alpha
  silu,              ///< out; x
  silu_backward,     ///< dx; dy, x
  gelu,              ///< out; x  erf form (nn.GELU's default)
  gelu_backward,     ///< dx; dy, x
  dropout,           ///< out, mask (uint8 or bool); x.  alpha: p; integers {seed, offset}; scales by 1 / (1 − p)
  dropout_backward,  ///< dx; dy, mask.  alpha: p
  // Reductions.
  sum_to,  ///< out; x  sums x over the dimensions that out (same rank) has with size 1; alpha times the sum
  // Norms over the last dimension; statistics are float32, one a row. alpha: eps.
  layer_norm,                   ///< y, mean, rstd; x, [weight], [bias]
  layer_norm_backward,          ///< dx; dy, x, mean, rstd, [weight]
  layer_norm_backward_weights,  ///< [dweight], [dbias]; dy, x, mean, rstd
  rms_norm,                     ///< y, rstd; x, weight
  rms_norm_backward,            ///< dx; dy, x, rstd, weight
  rms_norm_backward_weight,     ///< dweight; dy, x, rstd
  // GEMMs. Views of rank 2 (or 3: batched), each with one stride of 1.
  gemm,  ///< out[m, n]; a[m, k], b[k, n], [bias[n]].  alpha × a·b (+ bias); accumulates into out if `accumulate`
  // Attention on [batch, heads, length, head_dim]; fewer key heads than query heads are grouped. alpha: scale.
  attention,           ///< out, logsumexp (float32 [batch, heads, length]); q, k, v
  attention_backward,  ///< dq, dk, dv; d_out, q, k, v, out, logsumexp, [scratch as the program allocated it…]
  // Embedding. Indices are int64.
  embedding,           ///< out[…, dim]; weight[rows, dim], indices[…]
  embedding_backward,  ///< dweight; d_out, indices.  Writes all of dweight. Sums in float32, in the order of indices.
  // Loss over rows (last dimension: classes).
  log_softmax,           ///< out; x
  log_softmax_backward,  ///< dx; dy, out
  nll_loss,              ///< loss[], total_weight[]; log_probabilities, target.  Mean over rows
  nll_loss_backward,     ///< dx; d_loss[], target.  Writes all of dx
  cross_entropy,         ///< loss[], dlogits; logits, target.  Mean; dlogits for d_loss = 1; may lie over logits
  // Attention by parts (aten::_scaled_dot_product_attention_math). Rows: the last dimension.
  softmax,           ///< out; x.  Zeros for a row of −∞ (aten::_safe_softmax); out may lie over x
  softmax_backward,  ///< dx; dy, out
  causal_mask,       ///< out[queries, keys];  0 where the key is not behind the query, else −∞
  // Shape.
  cat,  ///< out; parts…  along dimension integers[0]
  // Fused forms of the Llama block.
  rope,                   ///< out; x[b, s, h, d] in any strides, cos[s, d/2], sin[s, d/2] (float32), halves layout
  rope_backward,          ///< dx; dy, cos, sin
  swiglu,                 ///< out; gate, up.  silu(gate) × up
  swiglu_backward,        ///< dgate, dup; dy, gate, up
  add_rms_norm,           ///< sum, y, rstd; x, residual, weight.  sum = x + residual, y = rms_norm(sum)
  add_rms_norm_backward,  ///< dsum; dy, d_residual_sum, sum, rstd, weight.  rms_norm_backward(dy) + d_residual_sum
  // FSDP2's sections (one kernel for all parameters of a unit).
  copy_in,  ///< flat; shards…  casts each shard into its place; integers: elements of the padded place of each, then,
            ///< where they do not lie one behind the other, where each begins; the padding is zero
  copy_out,   ///< parameters…; gathered.  integers {ranks, padded elements of each}; rows past a parameter's end drop
  chunk_cat,  ///< flat; gradients…  integers {ranks, padded elements a rank of each}; casts; padding is zero;
              ///< alpha: factor (gradient division)
  // Optimizers in one pass, over lists of n contiguous tensors, list by list.
  adam,  ///< params…, exp_avgs…, exp_avg_sqs…, [casts…]; gradients….  In float32; scalars {lr, beta1, beta2, eps,
         ///< weight_decay}, integers {step, from 1}; `casts`: the new parameters again, each in its cast's dtype
  sgd,  ///< params…, [casts…]; gradients….  scalars {lr, weight_decay}; `casts` as above
  // Passes over lists of n contiguous tensors, list by list, all of one dtype: torch._foreach_* (ForeachFunctors.cuh).
  // out may be a. alpha is rounded to float32; each result is rounded once more to the dtype.
  foreach_lerp,  ///< out…; a…, b…  fma(alpha, b − a, a); for |alpha| ≥ 0.5 b − (b − a) × (1 − alpha) (Lerp.h)
  foreach_mul,      ///< out…; a…  a × alpha
  foreach_addcmul,  ///< out…; a…, b…, c…  fma(alpha, b × c, a)
  foreach_sqrt,     ///< out…; a…
  foreach_div,      ///< out…; a…  a / alpha
  foreach_add,      ///< out…; a…  a + alpha
  foreach_addcdiv,  ///< out…; a…, b…, c…  fma(alpha, b / c, a)
  // Data and initial values: a counter-based generator (bits_of_counter below) over the element's global index.
  random_normal,  ///< out;  mean 0, std alpha.  integers {stream, first index}
  random_tokens,  ///< out (int64);  uniform in [0, integers[2]).  integers {stream, first index, bound}
  rotary_cos,     ///< out[s, d/2];  scalars {theta}
  rotary_sin,     ///< out[s, d/2];  scalars {theta}
  arange,         ///< out (int64);  0, 1, …
  // GEMMs in float8 with one scale a tensor (docs/own_program.md, "float8").
  amax,         ///< out (float32, one element); x  the largest |x|; NaN where x has one
  cast_float8,  ///< [out[m, n]], [transposed[n, m]], scale; x[m, n], amax.  x × (max / amax), in float32, saturated at
                ///< the dtype's max and rounded; scale (float32, one element): what undoes it
  scaled_mm,  ///< out[m, n]; a[m, k], b[k, n], scale_a, scale_b.  scale_a × scale_b × a·b; a's rows and b's columns
              ///< lie without gaps, matrices and scales on boundaries of 16 bytes; accumulates into out if
              ///< `accumulate`; integers {1: fast accumulation}
  transpose_float8,  ///< out[n, m]; x[m, n]  bytes as they are
  // Weights that are gathered in float8, of one unit: flat tensors, shards in their own dtype.
  shard_amaxes,  ///< out (float32[n]); shards…  the largest |x| of each; x rounded to bfloat16 first, here and below
  copy_in_float8,  ///< places…, scales (float32[k], any stride); shards…, amaxes (float32[k]).  each shard cast into
                   ///< its place, zeros behind its end; the k places in float8, in order, as cast_float8 does
};

/// A tensor on one block of memory. Sizes and strides are in elements.
struct TensorView {
  Bytes offset = 0;  ///< of its first element in the block
  DType dtype = DType::float32;
  bool absent = false;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;
  bool operator==(const TensorView&) const = default;

  [[nodiscard]] std::uint64_t numel() const {
    std::uint64_t n = 1;
    for (const std::uint64_t size : shape) n *= size;
    return n;
  }
};

struct Kernel {
  KernelOp op = KernelOp::fused;
  bool causal = false;      ///< attention
  bool accumulate = false;  ///< gemm
  bool casts = false;       ///< adam, sgd
  double alpha = 1;
  std::vector<TensorView> operands = {};
  std::vector<double> scalars = {};
  std::vector<std::int64_t> integers = {};
  bool operator==(const Kernel&) const = default;
};

/// Whether the kernel makes a batch's data: its stream, integers[0], is below 0 in a program, and what stands there
/// when it runs counts steps, microbatches and ranks.
[[nodiscard]] inline bool makes_batch(const Kernel& kernel) {
  const bool random = kernel.op == KernelOp::random_tokens || kernel.op == KernelOp::random_normal;
  return random && !kernel.integers.empty() && kernel.integers[0] < 0;
}

/// 64 random bits of a stream at an index: SplitMix64 (Steele, Lea, Flood 2014) of index + stream × 2^40. Elementwise
/// and stateless, so that any rank, and a script in PyTorch, makes the same values.
[[nodiscard]] constexpr std::uint64_t bits_of_counter(std::uint64_t stream, std::uint64_t index) {
  std::uint64_t z = (index + (stream << 40U)) * 0x9e3779b97f4a7c15ULL + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

/// random_normal's value before scaling: the sum of the counter's four 16-bit parts as uniform numbers, centred, with
/// variance 1 (bell-shaped, bounded by 2·√3, and exact in every implementation: integers until the last product).
[[nodiscard]] constexpr float normal_of_counter(std::uint64_t stream, std::uint64_t index) {
  const std::uint64_t bits = bits_of_counter(stream, index);
  const std::int64_t sum = static_cast<std::int64_t>(bits & 0xffffU) +
                           static_cast<std::int64_t>((bits >> 16U) & 0xffffU) +
                           static_cast<std::int64_t>((bits >> 32U) & 0xffffU) + static_cast<std::int64_t>(bits >> 48U);
  constexpr float kScale = 2.6428998e-05F;  // √3 / 65536: four uniform 16-bit numbers have a variance of 65536² / 3
  return static_cast<float>(sum - 2 * 0xffff) * kScale;
}

/// random_tokens' value. The top 63 bits, so that a script whose integers have a sign makes the same.
[[nodiscard]] constexpr std::uint64_t token_of_bits(std::uint64_t bits, std::uint64_t bound) {
  return (bits >> 1U) % bound;
}

/// Whether dropout keeps the element whose counter (stream: seed, index: offset + row-major element) has these bits:
/// the top 24 bits as a number in [0, 1) are not below p.
[[nodiscard]] constexpr bool dropout_keeps(std::uint64_t bits, double p) {
  return static_cast<double>(bits >> 40U) >= p * 0x1p24;
}

/// Where an operand of a program's kernel lies when it runs.
struct Operand {
  enum class Kind : std::uint8_t {
    none = 0,
    tensor = 1,     ///< TensorId `id` of this program (setup, or this step)
    setup = 2,      ///< TensorId `id` of setup
    parameter = 3,  ///< unsharded parameter `id`
    gradient = 4,   ///< the gradient that autograd holds for parameter `id`
    scale = 5,      ///< what undoes the cast of parameter `id`, which is gathered in float8 (float32, one element)
  };
  Kind kind = Kind::none;
  std::uint32_t id = 0;
  bool operator==(const Operand&) const = default;
};

/// A kernel of a program: `where` by operand.
struct ProgramKernel {
  Kernel kernel;
  std::vector<Operand> where;
};

}  // namespace foreshard
