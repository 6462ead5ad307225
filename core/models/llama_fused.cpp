#include "core/models/llama_fused.hpp"

#include "core/models/float8_ops.hpp"
#include "core/models/fused_ops.hpp"
#include "core/models/ops.hpp"

namespace foreshard::model {
namespace {

/// As a matrix of rows.
Tensor flat(Tape& tape, const Tensor& x) {
  return view(tape, x, {x->numel() / x->dim(-1), x->dim(-1)});
}

/// Products of rows with several weights.
Tensors products(Tape& tape, const LlamaBlock& block, const Tensor& rows, const Tensors& weights) {
  return block.float8 == Float8::none ? joined_linear(tape, rows, weights) : float8_linear(tape, rows, weights);
}

/// The product of a tensor with one weight.
Tensor product(Tape& tape, const LlamaBlock& block, const Tensor& x, const Tensor& weight) {
  if (block.float8 == Float8::none) return linear(tape, x, weight);
  Shape shape = x->shape;
  shape.back() = weight->dim(0);
  return view(tape, float8_linear(tape, flat(tape, x), {weight})[0], shape);
}

/// o.transpose(1, 2) as rows, of attention on `normed`.
Tensor attend(Tape& tape, const LlamaBlock& block, const Tensor& normed) {
  const std::uint64_t b = normed->dim(0);
  const std::uint64_t s = normed->dim(1);
  Tensors joined = products(tape, block, flat(tape, normed), {block.wq, block.wk, block.wv});
  const auto heads = [&](Tensor& projected) {
    Tensor out = view(tape, projected, {b, s, projected->dim(-1) / block.head_dim, block.head_dim});
    projected.reset();
    return out;
  };
  const auto turned = [&](Tensor& projected) {
    return transpose(tape, fused_rope(tape, heads(projected), block.cos, block.sin), 1, 2);
  };
  const Tensor q = turned(joined[0]);
  const Tensor k = turned(joined[1]);
  const Tensor v = transpose(tape, heads(joined[2]), 1, 2);
  const bool fallback = itemsize(q->dtype) != 2 && q->dim(1) != k->dim(1);  // PyTorch has no fused kernel for it
  const Tensor o = fallback ? own_attention(tape, q, k, v) : attention(tape, q, k, v, {});
  return view(tape, transpose(tape, o, 1, 2), {b, s, o->dim(1) * block.head_dim});
}

Tensor feed_forward(Tape& tape, const LlamaBlock& block, const Tensor& normed) {
  Tensors joined = products(tape, block, flat(tape, normed), {block.w1, block.w3});
  const Tensor active = swiglu(tape, joined[0], joined[1]);
  joined.clear();
  return view(tape, product(tape, block, active, block.w2), normed->shape);
}

}  // namespace

Tensors fused_llama_block(Tape& tape, const LlamaBlock& block, Tensors& inputs, bool closed) {
  const bool joins = inputs.size() > 1;
  AddedNorm before = add_rms_norm(tape, inputs.back(), joins ? inputs.front() : nullptr, block.attn_norm);
  inputs.clear();
  Tensor merged = attend(tape, block, before.out);
  before.out.reset();
  Tensor projected = product(tape, block, merged, block.wo);
  merged.reset();
  AddedNorm between = add_rms_norm(tape, projected, before.sum, block.ffn_norm);
  projected.reset();
  before.sum.reset();
  Tensor down = feed_forward(tape, block, between.out);
  if (!closed) return {between.sum, down};
  return {add(tape, between.sum, down)};
}

}  // namespace foreshard::model
