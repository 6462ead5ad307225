#include "core/models/fused_ops.hpp"

#include <cmath>

#include "core/models/ops.hpp"
#include "core/models/walk.hpp"

namespace foreshard::model {
namespace {

/// One kernel over all elements of `out`.
void launch_elementwise(Tape& tape, std::string_view label, Bytes bytes, const Tensor& out) {
  tape.launch(Launch::elementwise, label, bytes);
  mark(tape, MemoryAccess::contiguous, out->numel(), out->dtype);
}

void launch_rows(Tape& tape, std::string_view label, Bytes bytes, const Tensor& x,
                 MemoryAccess access = MemoryAccess::row) {
  tape.launch(Launch::reduction, label, bytes);
  mark(tape, access, x->numel(), x->dtype);
}

/// Gradients of the sum (from its other use, and through the norm) and of the weight.
Tensors add_rms_norm_back(Tape& tape, Node& node, const Tensors& gradients) {
  const Tensor sum = tape.unpack(node.saved[0]);
  const Tensor weight = tape.unpack(node.saved[1]);
  const Tensor rstd = tape.unpack(node.saved[2]);
  const Tensor& other = gradients[0];
  const Tensor& dy = gradients[1];
  Tensors out(3);
  out[0] = tape.empty(sum->shape, sum->dtype);
  if (other) {
    launch_rows(tape, "foreshard::add_rms_norm_backward", 4 * sum->bytes(), sum);
    tape.computes(Function::add_rms_norm_backward, out[0], dy, other, sum, rstd, weight);
  } else {
    launch_rows(tape, "foreshard::rms_norm_backward", 3 * sum->bytes(), sum);
    tape.computes(Function::rms_norm_backward, out[0], dy, sum, rstd, weight);
  }
  if (node.wants(2)) {
    out[2] = tape.empty(weight->shape, weight->dtype);
    launch_rows(tape, "foreshard::rms_norm_backward_weight", dy->bytes() + sum->bytes(), sum, MemoryAccess::column);
    tape.computes(Function::rms_norm_backward_weight, out[2], dy, sum, rstd);
  }
  if (node.wants(1)) out[1] = out[0];
  return out;
}

Tensor run_rope(Tape& tape, Function function, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  Tensor out = tape.empty(x->shape, x->dtype);
  launch_elementwise(tape, function == Function::rope ? "foreshard::rope" : "foreshard::rope_backward",
                     2 * x->bytes() + cos->bytes() + sin->bytes(), out);
  tape.computes(function, out, x, cos, sin);
  return out;
}

}  // namespace

AddedNorm add_rms_norm(Tape& tape, const Tensor& x, const Tensor& residual, const Tensor& weight) {
  const auto back = [&tape](Node& node, const Tensors& gradients) { return add_rms_norm_back(tape, node, gradients); };
  const NodePtr node = tape.record({x, residual, weight}, back, 2);
  AddedNorm made;
  made.sum = residual ? tape.empty(x->shape, x->dtype) : tape.alias(x, x->shape, x->strides, false);
  made.out = tape.empty(x->shape, x->dtype);
  Shape rows = x->shape;
  rows.back() = 1;
  const Tensor rstd = tape.empty(rows, DType::float32);
  const Computation norm{.function = residual ? Function::add_rms_norm : Function::rms_norm, .alpha = kRmsNormEps};
  launch_rows(tape, residual ? "foreshard::add_rms_norm" : "foreshard::rms_norm",
              (residual ? 4 : 2) * x->bytes() + rstd->bytes() + weight->bytes(), x);
  if (residual)
    tape.computes(norm, made.sum, made.out, rstd, x, residual, weight);
  else
    tape.computes(norm, made.out, rstd, x, weight);
  tape.save(node, made.sum);
  tape.save(node, weight);
  tape.save(node, rstd);
  Tape::attach(node, made.sum, 0);
  Tape::attach(node, made.out, 1);
  return made;
}

Tensor fused_rope(Tape& tape, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const auto back = [&tape, cos, sin](Node&, const Tensors& gradients) {
    return Tensors{run_rope(tape, Function::rope_backward, gradients[0], cos, sin)};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = run_rope(tape, Function::rope, x, cos, sin);
  Tape::attach(node, out);
  return out;
}

Tensor own_attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q->shape[3]));
  const KernelMath forward{KernelMath::Kind::attention_forward,
                           q->dtype,
                           true,
                           static_cast<std::uint32_t>(q->shape[0] * q->shape[1]),
                           q->shape[2],
                           k->shape[2],
                           q->shape[3]};
  const auto back = [&tape, scale, forward](Node& node, const Tensors& gradients) {
    Tensors kept;
    for (Saved& saved : node.saved) kept.push_back(tape.unpack(saved));
    Tensors out{tape.empty_like(kept[0]), tape.empty_like(kept[1]), tape.empty_like(kept[2])};
    KernelMath math = forward;
    math.kind = KernelMath::Kind::attention_backward;
    tape.launch_attention("foreshard::attention_backward", math,
                          4 * kept[0]->bytes() + 2 * (kept[1]->bytes() + kept[2]->bytes()));
    tape.computes({.function = Function::attention_backward, .causal = true, .alpha = scale}, out[0], out[1], out[2],
                  gradients[0], kept[0], kept[1], kept[2], kept[3], kept[4]);
    return out;
  };
  const NodePtr node = tape.record({q, k, v}, back);
  Tensor out = tape.empty_like(q);
  const Tensor logsumexp = tape.empty({q->shape[0], q->shape[1], q->shape[2]}, DType::float32);
  tape.launch_attention("foreshard::attention", forward, 2 * q->bytes() + k->bytes() + v->bytes());
  tape.computes({.function = Function::attention, .causal = true, .alpha = scale}, out, logsumexp, q, k, v);
  for (const Tensor& kept : {q, k, v, out, logsumexp}) tape.save(node, kept);
  Tape::attach(node, out);
  return out;
}

Tensor swiglu(Tape& tape, const Tensor& gate, const Tensor& up) {
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    const Tensor gate_saved = tape.unpack(node.saved[0]);
    const Tensor up_saved = tape.unpack(node.saved[1]);
    Tensors out{tape.empty(gate_saved->shape, gate_saved->dtype), tape.empty(up_saved->shape, up_saved->dtype)};
    launch_elementwise(tape, "foreshard::swiglu_backward", 5 * gate_saved->bytes(), out[0]);
    tape.computes(Function::swiglu_backward, out[0], out[1], gradients[0], gate_saved, up_saved);
    return out;
  };
  const NodePtr node = tape.record({gate, up}, back);
  tape.save(node, gate);
  tape.save(node, up);
  Tensor out = tape.empty(gate->shape, gate->dtype);
  launch_elementwise(tape, "foreshard::swiglu", 3 * gate->bytes(), out);
  tape.computes(Function::swiglu, out, gate, up);
  Tape::attach(node, out);
  return out;
}

Tensor fused_cross_entropy(Tape& tape, const Tensor& logits, const Tensor& target) {
  const auto back = [&tape](Node& node, const Tensors&) { return Tensors{tape.unpack(node.saved[0])}; };
  const NodePtr node = tape.record({logits}, back);
  const Tensor gradient = tape.alias(logits, logits->shape, logits->strides, false);
  Tensor loss = tape.empty({}, DType::float32);
  // A vocabulary's row is longer than shared memory: read for its maximum and sum, read again and written.
  launch_rows(tape, "foreshard::cross_entropy", 3 * logits->bytes() + target->bytes(), logits);
  tape.computes(Function::cross_entropy, loss, gradient, logits, target);
  tape.save(node, gradient);
  Tape::attach(node, loss);
  return loss;
}

}  // namespace foreshard::model
