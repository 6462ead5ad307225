#include "core/kernel/kernel_cost.hpp"
#include "core/models/ops.hpp"
#include "core/models/unpacked.hpp"

namespace foreshard::model {
namespace {

constexpr Bytes kLargestIndex = (Bytes{1} << 31) - 1;
constexpr double kLayerNormEps = 1e-5;  ///< nn.LayerNorm's default

Shape scalar() {
  return {};
}

/// mean(-1), layer norm's statistics: one number a row.
Shape rows_of(const Tensor& x) {
  Shape shape = x->shape;
  shape.back() = 1;
  return shape;
}

struct Normalised {
  Tensor out;
  Tensor mean;  ///< null for RMSNorm
  Tensor rstd;
};

Normalised norm_outputs(Tape& tape, const Tensor& x, bool mean) {
  Normalised n;
  n.out = tape.empty(x->shape, x->dtype);
  if (mean) n.mean = tape.empty(rows_of(x), DType::float32);
  n.rstd = tape.empty(rows_of(x), DType::float32);
  return n;
}

/// Both norms' backward: the input's gradient in one kernel, weight's (and bias') in another.
struct NormBack {
  std::string_view label;
  Tensor x, mean, rstd, weight;  ///< as saved; no mean for RMSNorm
};

Tensors norm_back(Tape& tape, const Node& node, const Tensor& gradient, const NormBack& norm) {
  const Tensor& x = norm.x;
  const DType weight_dtype = norm.weight->dtype;
  Tensors out(3);
  if (node.wants(0)) out[0] = tape.empty(x->shape, x->dtype);
  if (node.wants(1)) out[1] = tape.empty({x->dim(-1)}, weight_dtype);
  if (node.wants(2)) out[2] = tape.empty({x->dim(-1)}, weight_dtype);
  if (node.wants(0)) {
    if (norm.mean)
      tape.launch(norm.label, KernelOp::layer_norm_backward, out[0], gradient, x, norm.mean, norm.rstd, norm.weight);
    else
      tape.launch(norm.label, KernelOp::rms_norm_backward, out[0], gradient, x, norm.rstd, norm.weight);
  }
  if (node.wants(1)) {
    if (norm.mean)
      tape.launch(norm.label, KernelOp::layer_norm_backward_weights, out[1], out[2], gradient, x, norm.mean, norm.rstd);
    else
      tape.launch(norm.label, KernelOp::rms_norm_backward_weight, out[1], gradient, x, norm.rstd);
  }
  return out;
}

Tensor log_softmax(Tape& tape, const Tensor& x) {
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    const Tensor result = tape.unpack(node.saved[0]);
    Tensor out = tape.empty_like(gradients[0]);
    tape.launch("aten::_log_softmax_backward_data", KernelOp::log_softmax_backward, out, gradients[0], result);
    return Tensors{out};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = tape.empty_like(x);
  tape.launch("aten::_log_softmax", KernelOp::log_softmax, out, x);
  tape.save(node, out);
  Tape::attach(node, out);
  return out;
}

Tensor nll_loss(Tape& tape, const Tensor& scores, const Tensor& target) {
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    const Tensor self = tape.unpack(node.saved[0]);
    const Tensor target_saved = tape.unpack(node.saved[1]);
    Tensor out = tape.empty_like(self);
    // Elementwise kernels index with 32 bits: larger tensors are halved (TensorIterator, with_32bit_indexing).
    std::uint64_t pieces = 1;
    while (out->bytes() / pieces > kLargestIndex) pieces *= 2;
    for (std::uint64_t i = 0; i < pieces; ++i) {
      tape.launch_fused(Launch::elementwise, "aten::zero_",
                        bytes_cost(out->bytes() / pieces, MemoryAccess::contiguous, out->numel() / pieces, out->dtype));
    }
    tape.launch("aten::nll_loss_backward", KernelOp::nll_loss_backward, out, gradients[0], target_saved);
    return Tensors{out};
  };
  const NodePtr node = tape.record({scores}, back);
  tape.save(node, scores);
  tape.save(node, target);
  Tensor out = tape.empty(scalar(), scores->dtype);
  const Tensor total_weight = tape.empty(scalar(), scores->dtype);
  tape.launch("aten::nll_loss_forward", KernelOp::nll_loss, out, total_weight, scores, target);
  tape.save(node, total_weight);
  Tape::attach(node, out);
  return out;
}

}  // namespace

Tensor mean_all(Tape& tape, const Tensor& x) {
  // grad.expand(sizes) / numel
  const double share = 1.0 / static_cast<double>(x->numel());
  const auto back = [&tape, share, shape = x->shape, dtype = x->dtype](Node&, const Tensors& gradients) {
    Tensor out = tape.empty(shape, dtype);
    CostOverride priced = at_the_rate("one number is broadcast to all elements");
    priced.bytes = out->bytes();
    tape.launch_priced("aten::div", {.op = KernelOp::mul_scalar, .alpha = share}, priced, out, gradients[0]);
    return Tensors{out};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = tape.empty(scalar(), x->dtype);
  tape.launch_sum("aten::mean", out, x, share);
  Tape::attach(node, out);
  return out;
}

Tensor sum_all(Tape& tape, const Tensor& x) {
  // grad.expand(sizes): no memory.
  const auto back = [&tape, shape = x->shape](Node&, const Tensors& gradients) {
    return Tensors{tape.alias(gradients[0], shape, Shape(shape.size(), 0))};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = tape.empty(scalar(), x->dtype);
  tape.launch_sum("aten::sum", out, x);
  Tape::attach(node, out);
  return out;
}

Tensor mean_last(Tape& tape, const Tensor& x) {
  // grad.expand(sizes) / n
  const double share = 1.0 / static_cast<double>(x->dim(-1));
  const auto back = [&tape, share, shape = x->shape, dtype = x->dtype](Node&, const Tensors& gradients) {
    Tensor out = tape.empty(shape, dtype);
    const CostOverride priced = at_the_rate("a number a row is broadcast along it");
    tape.launch_priced("aten::div", {.op = KernelOp::mul_scalar, .alpha = share}, priced, out, gradients[0]);
    return Tensors{out};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = tape.empty(rows_of(x), x->dtype);
  tape.launch_sum("aten::mean", out, x, share);
  Tape::attach(node, out);
  return out;
}

Tensor layer_norm(Tape& tape, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    const Unpacked kept(tape, node);
    const std::size_t x_at = kept.size() - 4;
    return norm_back(tape, node, gradients[0],
                     {"aten::native_layer_norm_backward", kept[x_at], kept[x_at + 2], kept[x_at + 3], kept[x_at + 1]});
  };
  const NodePtr node = tape.record({x, weight, bias}, back);
  if (bias) tape.save(node, bias);
  tape.save(node, x);
  tape.save(node, weight);
  const Normalised n = norm_outputs(tape, x, true);
  tape.launch("aten::native_layer_norm", {.op = KernelOp::layer_norm, .alpha = kLayerNormEps}, n.out, n.mean, n.rstd, x,
              weight, bias);
  tape.save(node, n.mean);
  tape.save(node, n.rstd);
  Tape::attach(node, n.out);
  return n.out;
}

Tensor rms_norm(Tape& tape, const Tensor& x, const Tensor& weight) {
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    const Tensor x_saved = tape.unpack(node.saved[0]);
    const Tensor weight_saved = tape.unpack(node.saved[1]);
    const Tensor rstd = tape.unpack(node.saved[2]);
    return norm_back(tape, node, gradients[0],
                     {"aten::_fused_rms_norm_backward", x_saved, nullptr, rstd, weight_saved});
  };
  const NodePtr node = tape.record({x, weight, nullptr}, back);
  tape.save(node, x);
  tape.save(node, weight);
  const Normalised n = norm_outputs(tape, x, false);
  tape.launch("aten::_fused_rms_norm", {.op = KernelOp::rms_norm, .alpha = kRmsNormEps}, n.out, n.rstd, x, weight);
  tape.save(node, n.rstd);
  Tape::attach(node, n.out);
  return n.out;
}

Tensor cross_entropy(Tape& tape, const Tensor& logits, const Tensor& target) {
  const Tensor scores = log_softmax(tape, logits);
  return nll_loss(tape, scores, target);
}

}  // namespace foreshard::model
