#include "core/models/attention_math.hpp"

#include <cmath>

#include "core/base/check.hpp"
#include "core/kernel/kernel_cost.hpp"

namespace foreshard::model {
namespace {

/// A launch that writes `out` from `inputs`, and whose work is part of a neighbouring launch's Kernel.
void launch_fused(Tape& tape, Launch kind, std::string_view label, const Tensors& inputs, const Tensor& out) {
  Bytes bytes = out->bytes();
  for (const Tensor& x : inputs) bytes += x->bytes();
  tape.launch_fused(kind, label, bytes_cost(bytes));
}

/// at::scalar_tensor on the device.
Tensor scalar(Tape& tape, DType dtype) {
  Tensor out = tape.empty({}, dtype);
  launch_fused(tape, Launch::elementwise, "aten::fill_", {}, out);
  return out;
}

/// ones({queries, keys}, bool).tril(), and convert_boolean_attn_mask's where(mask, 0.0, −∞).
Tensor causal_mask(Tape& tape, std::uint64_t queries, std::uint64_t keys, DType dtype) {
  Tensor seen;
  {
    const Tensor ones = tape.empty({queries, keys}, DType::bool8);
    launch_fused(tape, Launch::elementwise, "aten::fill_", {}, ones);
    seen = tape.empty({queries, keys}, DType::bool8);
    launch_fused(tape, Launch::elementwise, "aten::tril", {ones}, seen);
  }
  const Tensor infinity = scalar(tape, dtype);
  Tensor zero = scalar(tape, dtype);
  Tensor out = tape.empty({queries, keys}, dtype);
  const CostOverride reads_mask{"aten::where reads the boolean mask", seen->bytes() + out->bytes(), {}};
  tape.launch_priced("aten::where", {.op = KernelOp::causal_mask}, reads_mask, out);
  zero.reset();
  return out;
}

/// aten::_safe_softmax: its last pass gives zeros to rows of −∞, which a causal mask never makes.
Tensor run_safe_softmax(Tape& tape, const Tensor& x) {
  const Tensor plain = tape.empty(x->shape, x->dtype);
  tape.launch("aten::_softmax", KernelOp::softmax, plain, x);
  const Tensor infinity = scalar(tape, x->dtype);
  const Tensor masked = tape.empty(x->shape, DType::bool8);
  launch_fused(tape, Launch::elementwise, "aten::eq", {x}, masked);
  Shape rows = x->shape;
  rows.back() = 1;
  const Tensor masked_rows = tape.empty(rows, DType::bool8);
  launch_fused(tape, Launch::reduction, "aten::all", {masked}, masked_rows);
  const Tensor zero = scalar(tape, x->dtype);
  Tensor out = tape.empty(x->shape, x->dtype);
  CostOverride reads_rows = at_the_rate("aten::where reads which rows are masked, and broadcasts them");
  reads_rows.bytes = masked_rows->bytes() + plain->bytes() + out->bytes();
  tape.launch_priced("aten::where", {.op = KernelOp::copy}, reads_rows, out, plain);
  return out;
}

Tensor safe_softmax(Tape& tape, const Tensor& x) {
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    const Tensor result = tape.unpack(node.saved[0]);
    const Tensor out = tape.empty(result->shape, result->dtype);
    tape.launch("aten::_softmax_backward_data", KernelOp::softmax_backward, out, gradients[0], result);
    return Tensors{out};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = run_safe_softmax(tape, x);
  tape.save(node, out);
  Tape::attach(node, out);
  return out;
}

/// x.repeat_interleave(heads / x.size(1), 1): a view with another dimension, written out.
Tensor repeat_heads(Tape& tape, const Tensor& x, std::uint64_t heads) {
  if (x->shape[1] == heads) return x;
  FORESHARD_CHECK(heads % x->shape[1] == 0, "query heads come in groups of key heads");
  Shape wide = x->shape;
  wide.insert(wide.begin() + 2, heads / x->shape[1]);
  Shape joined = x->shape;
  joined[1] = heads;
  return view(tape, clone(tape, expand(tape, unsqueeze(tape, x, 2), wide)), joined);
}

/// at::matmul of two tensors with the same two leading dimensions.
Tensor matmul(Tape& tape, const Tensor& a, const Tensor& b) {
  const std::uint64_t batch = a->shape[0] * a->shape[1];
  const Tensor left = reshape(tape, a, {batch, a->shape[2], a->shape[3]});
  const Tensor right = reshape(tape, b, {batch, b->shape[2], b->shape[3]});
  return unsafe_view(tape, bmm(tape, left, right), {a->shape[0], a->shape[1], a->shape[2], b->shape[3]});
}

}  // namespace

Tensor math_attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  const double scale = std::sqrt(1.0 / std::sqrt(static_cast<double>(q->shape[3])));  // of q and k each
  const Tensor query = mul_scalar(tape, q, scale);
  Tensor mask;
  if (causal) mask = causal_mask(tape, q->shape[2], k->shape[2], q->dtype);
  const Tensor key = repeat_heads(tape, k, q->shape[1]);
  const Tensor value = repeat_heads(tape, v, q->shape[1]);
  Tensor scores = matmul(tape, query, mul_scalar(tape, transpose(tape, key, 2, 3), scale));
  if (causal) tape.launch("aten::add_", KernelOp::add, scores, scores, mask);  // the scores' gradient passes through
  scores = safe_softmax(tape, scores);
  return matmul(tape, scores, value);
}

}  // namespace foreshard::model
