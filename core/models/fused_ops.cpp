#include "core/models/fused_ops.hpp"

#include <cmath>

#include "core/kernel/own_kernels.hpp"
#include "core/models/ops.hpp"

namespace foreshard::model {
namespace {

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
    tape.launch(own_label(KernelOp::add_rms_norm_backward), KernelOp::add_rms_norm_backward, out[0], dy, other, sum,
                rstd, weight);
  } else {
    tape.launch(own_label(KernelOp::rms_norm_backward), KernelOp::rms_norm_backward, out[0], dy, sum, rstd, weight);
  }
  if (node.wants(2)) {
    out[2] = tape.empty(weight->shape, weight->dtype);
    tape.launch(own_label(KernelOp::rms_norm_backward_weight), KernelOp::rms_norm_backward_weight, out[2], dy, sum,
                rstd);
  }
  if (node.wants(1)) out[1] = out[0];
  return out;
}

Tensor run_rope(Tape& tape, KernelOp op, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  Tensor out = tape.empty(x->shape, x->dtype);
  tape.launch(own_label(op), op, out, x, cos, sin);
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
  const Kernel norm{.op = residual ? KernelOp::add_rms_norm : KernelOp::rms_norm, .alpha = kRmsNormEps};
  if (residual)
    tape.launch(own_label(KernelOp::add_rms_norm), norm, made.sum, made.out, rstd, x, residual, weight);
  else
    tape.launch(own_label(KernelOp::rms_norm), norm, made.out, rstd, x, weight);
  tape.save(node, made.sum);
  tape.save(node, weight);
  tape.save(node, rstd);
  Tape::attach(node, made.sum, 0);
  Tape::attach(node, made.out, 1);
  return made;
}

Tensor fused_rope(Tape& tape, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const auto back = [&tape, cos, sin](Node&, const Tensors& gradients) {
    return Tensors{run_rope(tape, KernelOp::rope_backward, gradients[0], cos, sin)};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = run_rope(tape, KernelOp::rope, x, cos, sin);
  Tape::attach(node, out);
  return out;
}

Tensor own_attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q->shape[3]));
  const auto back = [&tape, scale](Node& node, const Tensors& gradients) {
    Tensors kept;
    for (Saved& saved : node.saved) kept.push_back(tape.unpack(saved));
    Tensors out{tape.empty_like(kept[0]), tape.empty_like(kept[1]), tape.empty_like(kept[2])};
    tape.launch(own_label(KernelOp::attention_backward),
                {.op = KernelOp::attention_backward, .causal = true, .alpha = scale}, out[0], out[1], out[2],
                gradients[0], kept[0], kept[1], kept[2], kept[3], kept[4]);
    return out;
  };
  const NodePtr node = tape.record({q, k, v}, back);
  Tensor out = tape.empty_like(q);
  const Tensor logsumexp = tape.empty({q->shape[0], q->shape[1], q->shape[2]}, DType::float32);
  tape.launch(own_label(KernelOp::attention), {.op = KernelOp::attention, .causal = true, .alpha = scale}, out,
              logsumexp, q, k, v);
  for (const Tensor& kept : {q, k, v, out, logsumexp}) tape.save(node, kept);
  Tape::attach(node, out);
  return out;
}

Tensor swiglu(Tape& tape, const Tensor& gate, const Tensor& up) {
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    const Tensor gate_saved = tape.unpack(node.saved[0]);
    const Tensor up_saved = tape.unpack(node.saved[1]);
    Tensors out{tape.empty(gate_saved->shape, gate_saved->dtype), tape.empty(up_saved->shape, up_saved->dtype)};
    tape.launch(own_label(KernelOp::swiglu_backward), KernelOp::swiglu_backward, out[0], out[1], gradients[0],
                gate_saved, up_saved);
    return out;
  };
  const NodePtr node = tape.record({gate, up}, back);
  tape.save(node, gate);
  tape.save(node, up);
  Tensor out = tape.empty(gate->shape, gate->dtype);
  tape.launch(own_label(KernelOp::swiglu), KernelOp::swiglu, out, gate, up);
  Tape::attach(node, out);
  return out;
}

Tensor fused_cross_entropy(Tape& tape, const Tensor& logits, const Tensor& target) {
  const auto back = [&tape](Node& node, const Tensors&) { return Tensors{tape.unpack(node.saved[0])}; };
  const NodePtr node = tape.record({logits}, back);
  const Tensor gradient = tape.alias(logits, logits->shape, logits->strides, false);
  Tensor loss = tape.empty({}, DType::float32);
  tape.launch(own_label(KernelOp::cross_entropy), KernelOp::cross_entropy, loss, gradient, logits, target);
  tape.save(node, gradient);
  Tape::attach(node, loss);
  return loss;
}

}  // namespace foreshard::model
