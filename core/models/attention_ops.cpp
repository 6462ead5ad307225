#include <array>
#include <cmath>

#include "core/base/check.hpp"
#include "core/kernel/kernel_cost.hpp"
#include "core/models/attention_math.hpp"
#include "core/models/ops.hpp"
#include "core/models/unpacked.hpp"

namespace foreshard::model {
namespace {

constexpr Bytes kFloat = 4;
// cuDNN's forward needs 256 bytes at every shape that the reference runs have.
constexpr Bytes kCudnnForwardWorkspace = 256;
// …, and its backward as many beside the tensors below (four shapes of the reference runs).
constexpr Bytes kCudnnBackwardExtra = 256;

struct Sizes {
  std::uint64_t batch, heads, kv_heads, queries, keys, head_dim;
  std::uint64_t value_dim;  ///< head_dim but in latent attention
};

Sizes sizes(const Tensor& q, const Tensor& k, const Tensor& v) {
  return {q->shape[0], q->shape[1], k->shape[1], q->shape[2], k->shape[2], q->shape[3], v->shape[3]};
}

/// cudnn_sdp: dq in float32, with grouped heads dk and dv of every query head, and one float a row.
Bytes cudnn_backward_workspace(const Sizes& s, DType dtype) {
  const Bytes rows = s.batch * s.heads * s.queries;
  const Bytes expanded = s.kv_heads == s.heads ? 0 : 2 * s.batch * s.heads * s.keys * s.head_dim * itemsize(dtype);
  return rows * s.head_dim * kFloat + expanded + rows * kFloat + kCudnnBackwardExtra;
}

/// Scaled by 1 / √head_dim, as without an argument.
Kernel kernel(KernelOp op, const Sizes& s, bool causal) {
  return {.op = op, .causal = causal, .alpha = 1.0 / std::sqrt(static_cast<double>(s.head_dim))};
}

/// The statistics of the rows, without what pads their memory.
Tensor rows(Tape& tape, const Tensor& logsumexp, const Sizes& s) {
  return tape.alias(logsumexp, {s.batch, s.heads, s.queries}, {logsumexp->strides[0], logsumexp->strides[1], 1}, false);
}

/// `operands`: out, log-sum-exp as it lies or nothing, q, k, v.
void launch_forward(Tape& tape, std::string_view label, const Attention& how, const std::array<Tensor, 5>& operands) {
  const auto& [out, logsumexp, q, k, v] = operands;
  const Sizes s = sizes(q, k, v);
  const Tensor statistics = logsumexp ? rows(tape, logsumexp, s) : nullptr;
  tape.launch(label, kernel(KernelOp::attention, s, how.causal), out, statistics, q, k, v);
  if (how.dropout != 0 || !logsumexp || s.value_dim != s.head_dim) tape.not_as_described();
}

/// should_compute_logsumexp (sdp_utils.cpp): where autograd will ask for it. Flash attention always has one.
bool wants_logsumexp(const NodePtr& node) {
  return node != nullptr;
}

/// flash_api.cpp, mha_bwd: softmax_d, dq_accum in float32, with grouped heads dk and dv of every query head.
Tensors flash_backward_temporaries(Tape& tape, const Sizes& s, DType dtype) {
  constexpr std::uint64_t kRows = 128;
  const std::uint64_t queries = round_up(s.queries, kRows);
  const std::uint64_t head_dim = round_up(s.head_dim, s.head_dim <= 128 ? 32 : 64);
  Tensors out{tape.empty({s.batch, s.heads, queries}, DType::float32),
              tape.empty({s.batch, queries, s.heads, head_dim}, DType::float32)};
  if (s.kv_heads == s.heads) return out;
  out.push_back(tape.empty({s.batch, s.keys, s.heads, s.head_dim}, dtype));
  out.push_back(tape.empty({s.batch, s.keys, s.heads, s.head_dim}, dtype));
  return out;
}

Tensors cudnn_backward_temporaries(Tape& tape, const Sizes& s, DType dtype) {
  tape.launch_memset(kFloat);
  return {tape.workspace(cudnn_backward_workspace(s, dtype))};
}

/// cuDNN's and flash's backward run the same kernels: rows' products, the gradients, dq's cast, sums of grouped heads.
Tensors half_backward(Tape& tape, const AttentionKept& kept, const Tensor& gradient, bool causal) {
  const auto& [k, q, v, logsumexp, result] = kept;
  const Sizes s = sizes(q, k, v);
  const bool flash = tape.options().flash_attention;
  Tensors out{tape.empty_like(q), tape.empty_like(k), tape.empty_like(v)};
  const Tensors temporaries =
      flash ? flash_backward_temporaries(tape, s, q->dtype) : cudnn_backward_temporaries(tape, s, q->dtype);
  tape.launch_fused(Launch::elementwise, flash ? "flash dot_do_o" : "cudnn dot_do_o",
                    bytes_cost(2 * result->bytes(), MemoryAccess::row, result->numel(), q->dtype));
  tape.launch(flash ? "aten::_scaled_dot_product_flash_attention_backward"
                    : "aten::_scaled_dot_product_cudnn_attention_backward",
              kernel(KernelOp::attention_backward, s, causal), out[0], out[1], out[2], gradient, q, k, v, result,
              rows(tape, logsumexp, s), temporaries[flash ? 1 : 0]);
  if (s.value_dim != s.head_dim) tape.not_as_described();
  tape.launch_fused(Launch::elementwise, flash ? "flash convert_dq" : "cudnn convert_dq",
                    bytes_cost(q->numel() * kFloat + q->bytes(), MemoryAccess::contiguous, q->numel(), q->dtype));
  if (s.kv_heads != s.heads) {
    const Bytes expanded = s.batch * s.heads * s.keys * s.head_dim * itemsize(q->dtype);
    const std::string_view sum = flash ? "aten::sum" : "cudnn fmha_reduce_head";
    tape.launch_fused(Launch::elementwise, sum, bytes_cost(expanded + k->bytes()));
    tape.launch_fused(Launch::elementwise, sum, bytes_cost(expanded + v->bytes()));
  }
  return out;
}

/// alloc_with_matching_layout (cudnn/MHA.cpp): the order of dimensions of q, the width of v.
Tensor cudnn_result(Tape& tape, const Tensor& q, const Sizes& s) {
  if (s.value_dim == s.head_dim) return tape.empty_like(q);
  return tape.empty_like(tape.alias(q, {s.batch, s.heads, s.queries, s.value_dim}, q->strides, false));
}

/// The result, its log-sum-exp, the random seed and offset.
Tensors run_cudnn_attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, const Attention& how,
                            bool statistics) {
  if (Tensors kept = tape.reuse(Selected::attention); !kept.empty()) return kept;
  const Sizes s = sizes(q, k, v);
  const Tensor seed = tape.workspace(8);
  const Tensor offset = tape.workspace(8);
  const Tensor out = cudnn_result(tape, q, s);
  Tensor logsumexp;
  if (statistics) logsumexp = tape.empty({s.batch, s.heads, s.queries, 1}, DType::float32);
  const Tensor workspace = tape.workspace(kCudnnForwardWorkspace);
  tape.launch_memset(kFloat);
  launch_forward(tape, "aten::_scaled_dot_product_cudnn_attention", how, {out, logsumexp, q, k, v});
  Tensors made{out, logsumexp, seed, offset};
  tape.keep(Selected::attention, made);
  return made;
}

/// flash_api.cpp, mha_fwd: the result, its log-sum-exp, the seed and the offset of random numbers. The keys of few
/// blocks are split there, which takes temporaries that are left out here.
Tensors run_flash_attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, const Attention& how) {
  if (Tensors kept = tape.reuse(Selected::attention); !kept.empty()) return kept;
  const Sizes s = sizes(q, k, v);
  const Tensor out = tape.empty_like(q);
  const Tensor logsumexp = tape.empty({s.batch, s.heads, s.queries}, DType::float32);
  const Tensor seed = tape.workspace(16);
  const Tensor offset = tape.workspace(8);
  launch_forward(tape, "aten::_scaled_dot_product_flash_attention", how, {out, logsumexp, q, k, v});
  Tensors made{out, logsumexp, seed, offset};
  tape.keep(Selected::attention, made);
  return made;
}

Tensor half_attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, const Attention& how) {
  const auto back = [&tape, causal = how.causal](Node& node, const Tensors& gradients) {
    const Unpacked kept(tape, node);
    return half_backward(tape, {kept[0], kept[1], kept[2], kept[3], kept[4]}, gradients[0], causal);
  };
  const NodePtr node = tape.record({q, k, v}, back);
  tape.save(node, k);
  tape.save(node, q);
  tape.save(node, v);
  const Tensors made = tape.options().flash_attention ? run_flash_attention(tape, q, k, v, how)
                                                      : run_cudnn_attention(tape, q, k, v, how, wants_logsumexp(node));
  tape.save(node, made[1]);
  tape.save(node, made[0]);
  tape.save(node, made[3]);
  tape.save(node, made[2]);
  Tape::attach(node, made[0]);
  return made[0];
}

/// CUTLASS' memory-efficient attention writes length before heads (attention.cu): a transposed view.
Tensor heads_inside(Tape& tape, const Sizes& s, std::uint64_t length, std::uint64_t dim, DType dtype) {
  Tensor out = tape.empty({s.batch, length, s.heads, dim}, dtype);
  out->shape = {s.batch, s.heads, length, dim};
  out->strides = {length * s.heads * dim, dim, s.heads * dim, 1};
  return out;
}

/// mem_eff_attention/kernel_backward.h (workspace_elements_gq and its like, on 8.0 and later): float32 tiles of dq with
/// 16 bytes of locks each, and dk and dv where registers do not hold them. Seen on an H200 (PyTorch 2.11, head
/// dimensions 32 to 160 in bfloat16 and float32); the recorder's fake/unseen.py has the same rule.
Bytes efficient_backward_workspace(const Sizes& s, Bytes item) {
  const std::uint64_t rows = s.head_dim <= 64 ? 64 : 128;
  const bool half = item == 2;
  const std::uint64_t columns = half && s.head_dim > 64 && s.head_dim <= 128 ? 128 : 64;
  const std::uint64_t tiles = round_up(s.queries, rows) / rows * (round_up(s.head_dim, columns) / columns);
  const Bytes outputs = half && s.head_dim > 128 ? 2 * round_up(s.keys, 64) * round_up(s.head_dim, 128) * kFloat : 0;
  return s.batch * s.heads * (tiles * (rows * columns * kFloat + 16) + outputs);
}

Tensors efficient_backward(Tape& tape, Node& node, const Tensors& gradients, bool causal) {
  const Unpacked kept(tape, node);
  const Tensor& k = kept[0];
  const Tensor& q = kept[1];
  const Sizes s = sizes(q, k, kept[2]);
  Tensors out;
  out.push_back(heads_inside(tape, s, s.queries, s.head_dim, q->dtype));
  out.push_back(heads_inside(tape, s, s.keys, s.head_dim, q->dtype));
  out.push_back(heads_inside(tape, s, s.keys, s.value_dim, q->dtype));
  Tensor delta;  // (grad_out * out).sum(-1), made contiguous
  {
    const Tensor product = tape.empty({s.batch, s.heads, s.queries, s.value_dim}, DType::float32);
    tape.launch_fused(Launch::elementwise, "aten::mul", bytes_cost(2 * gradients[0]->bytes() + product->bytes()));
    Tensor sum = tape.empty({s.batch, s.queries, s.heads}, DType::float32);
    tape.launch_fused(Launch::reduction, "aten::sum", bytes_cost(product->bytes() + sum->bytes()));
    delta = tape.empty(sum->shape, sum->dtype);
    tape.launch_fused(Launch::elementwise, "aten::copy_", elementwise_cost(std::array{view_of(*delta), view_of(*sum)}));
    sum.reset();
  }
  const Tensor workspace = tape.workspace(efficient_backward_workspace(s, itemsize(q->dtype)));
  tape.launch("aten::_scaled_dot_product_efficient_attention_backward", kernel(KernelOp::attention_backward, s, causal),
              out[0], out[1], out[2], gradients[0], q, k, kept[2], kept[4], rows(tape, kept[3], s), workspace);
  delta.reset();
  return out;
}

Tensor efficient_attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, const Attention& how) {
  const auto back = [&tape, causal = how.causal](Node& node, const Tensors& gradients) {
    return efficient_backward(tape, node, gradients, causal);
  };
  const NodePtr node = tape.record({q, k, v}, back);
  tape.save(node, k);
  tape.save(node, q);
  tape.save(node, v);
  const Sizes s = sizes(q, k, v);
  Tensor out = heads_inside(tape, s, s.queries, s.value_dim, q->dtype);
  Tensor logsumexp;
  if (wants_logsumexp(node)) logsumexp = tape.empty({s.batch, s.heads, round_up(s.queries, 32)}, DType::float32);
  launch_forward(tape, "aten::_scaled_dot_product_efficient_attention", how, {out, logsumexp, q, k, v});
  tape.save(node, logsumexp);
  tape.save(node, out);
  Tape::attach(node, out);
  return out;
}

}  // namespace

Tensors attention_forward(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v) {
  return tape.options().flash_attention ? run_flash_attention(tape, q, k, v, {})
                                        : run_cudnn_attention(tape, q, k, v, {}, true);
}

Tensors attention_backward(Tape& tape, const AttentionKept& kept, const Tensor& gradient) {
  return half_backward(tape, kept, gradient, true);
}

Tensor attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, const Attention& how) {
  // sdp_utils.cpp: cuDNN or flash first (TargetGpu) for 16-bit types, head dimensions up to 128 in multiples of 8; what
  // neither takes (float32) goes to the memory-efficient kernel, which takes no grouped heads
  // (check_batch_size_and_num_heads_dense<false>): those go to the math fallback. Heads of v of another width than q's
  // flash does not take (check_head_dim_size_flash); cuDNN takes them on sm90 up to 256, with cuDNN 9.10 or later.
  tape.spend(HostCall::view);
  const bool half = itemsize(q->dtype) == 2;
  if (!half && q->shape[1] != k->shape[1]) {
    FORESHARD_CHECK(how.dropout == 0, "the math fallback is written without dropout");
    return math_attention(tape, q, k, v, how.causal);
  }
  if (v->shape[3] != q->shape[3] && tape.options().flash_attention) return efficient_attention(tape, q, k, v, how);
  return half ? half_attention(tape, q, k, v, how) : efficient_attention(tape, q, k, v, how);
}

}  // namespace foreshard::model
