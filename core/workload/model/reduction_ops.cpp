#include "core/workload/model/ops.hpp"
#include "core/workload/model/unpacked.hpp"
#include "core/workload/model/walk.hpp"

namespace foreshard::model {
namespace {

constexpr Bytes kLargestIndex = (Bytes{1} << 31) - 1;

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

Normalised run_norm(Tape& tape, const Tensor& x, const Tensor& weight, const Tensor& bias, bool mean,
                    std::string_view label) {
  Normalised n;
  n.out = tape.empty(x->shape, x->dtype);
  if (mean) n.mean = tape.empty(rows_of(x), DType::float32);
  n.rstd = tape.empty(rows_of(x), DType::float32);
  tape.launch(
      Launch::reduction, label,
      x->bytes() + n.out->bytes() + weight->bytes() + (bias ? bias->bytes() : 0) + (mean ? 2 : 1) * n.rstd->bytes());
  mark(tape, MemoryAccess::row, x->numel(), x->dtype);
  return n;
}

/// Both norms' backward: the input's gradient in one kernel, weight's (and bias') in another.
Tensors norm_back(Tape& tape, const Node& node, const Tensor& gradient, const Tensor& x, DType weight_dtype,
                  std::string_view label) {
  Tensors out(3);
  if (node.wants(0)) out[0] = tape.empty(x->shape, x->dtype);
  if (node.wants(1)) out[1] = tape.empty({x->dim(-1)}, weight_dtype);
  if (node.wants(2)) out[2] = tape.empty({x->dim(-1)}, weight_dtype);
  if (node.wants(0)) {
    tape.launch(Launch::reduction, label, 3 * x->bytes());
    mark(tape, MemoryAccess::row, x->numel(), x->dtype);
  }
  if (node.wants(1)) {
    tape.launch(Launch::reduction, label, gradient->bytes() + x->bytes());
    mark(tape, MemoryAccess::column, x->numel(), x->dtype);
  }
  return out;
}

Tensor log_softmax(Tape& tape, const Tensor& x) {
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    const Tensor result = tape.unpack(node.saved[0]);
    Tensor out = tape.empty_like(gradients[0]);
    tape.launch(Launch::reduction, "aten::_log_softmax_backward_data",
                gradients[0]->bytes() + result->bytes() + out->bytes());
    mark(tape, MemoryAccess::row, out->numel(), out->dtype);
    return Tensors{out};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = tape.empty_like(x);
  // A vocabulary's row is longer than shared memory: read for its maximum and sum, and again.
  tape.launch(Launch::reduction, "aten::_log_softmax", 2 * x->bytes() + out->bytes());
  mark(tape, MemoryAccess::row, x->numel(), x->dtype);
  tape.save(node, out);
  Tape::attach(node, out);
  return out;
}

Tensor nll_loss(Tape& tape, const Tensor& scores, const Tensor& target) {
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    const Tensor self = tape.unpack(node.saved[0]);
    Tensor out = tape.empty_like(self);
    // Elementwise kernels index with 32 bits: larger tensors are halved (TensorIterator, with_32bit_indexing).
    std::uint64_t pieces = 1;
    while (out->bytes() / pieces > kLargestIndex) pieces *= 2;
    for (std::uint64_t i = 0; i < pieces; ++i) {
      tape.launch(Launch::elementwise, "aten::zero_", out->bytes() / pieces);
      mark(tape, MemoryAccess::contiguous, out->numel() / pieces, out->dtype);
    }
    tape.launch(Launch::reduction, "aten::nll_loss_backward",
                self->shape[0] * (itemsize(DType::int64) + itemsize(self->dtype)));
    static_cast<void>(gradients);
    return Tensors{out};
  };
  const NodePtr node = tape.record({scores}, back);
  tape.save(node, scores);
  tape.save(node, target);
  Tensor out = tape.empty(scalar(), scores->dtype);
  const Tensor total_weight = tape.empty(scalar(), scores->dtype);
  tape.launch(Launch::reduction, "aten::nll_loss_forward",
              scores->shape[0] * (itemsize(DType::int64) + itemsize(scores->dtype)));
  tape.save(node, total_weight);
  Tape::attach(node, out);
  return out;
}

}  // namespace

Tensor mean_all(Tape& tape, const Tensor& x) {
  // grad.expand(sizes) / numel
  const auto back = [&tape, shape = x->shape, dtype = x->dtype](Node&, const Tensors&) {
    Tensor out = tape.empty(shape, dtype);
    tape.launch(Launch::elementwise, "aten::div", out->bytes());
    return Tensors{out};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = compute(tape, {x}, scalar(), x->dtype, "aten::mean", Launch::reduction);
  Tape::attach(node, out);
  return out;
}

Tensor sum_all(Tape& tape, const Tensor& x) {
  // grad.expand(sizes): no memory.
  const auto back = [&tape, shape = x->shape](Node&, const Tensors& gradients) {
    return Tensors{tape.alias(gradients[0], shape, Shape(shape.size(), 0))};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = compute(tape, {x}, scalar(), x->dtype, "aten::sum", Launch::reduction);
  Tape::attach(node, out);
  return out;
}

Tensor mean_last(Tape& tape, const Tensor& x) {
  // grad.expand(sizes) / n
  const auto back = [&tape, shape = x->shape, dtype = x->dtype](Node&, const Tensors& gradients) {
    Tensor out = tape.empty(shape, dtype);
    tape.launch(Launch::elementwise, "aten::div", out->bytes() + gradients[0]->bytes());
    return Tensors{out};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = compute(tape, {x}, rows_of(x), x->dtype, "aten::mean", Launch::reduction);
  Tape::attach(node, out);
  return out;
}

Tensor layer_norm(Tape& tape, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto back = [&tape, dtype = weight->dtype](Node& node, const Tensors& gradients) {
    const Unpacked kept(tape, node);
    const Tensor& x_saved = kept[kept.size() - 4];
    return norm_back(tape, node, gradients[0], x_saved, dtype, "aten::native_layer_norm_backward");
  };
  const NodePtr node = tape.record({x, weight, bias}, back);
  if (bias) tape.save(node, bias);
  tape.save(node, x);
  tape.save(node, weight);
  const Normalised n = run_norm(tape, x, weight, bias, true, "aten::native_layer_norm");
  tape.save(node, n.mean);
  tape.save(node, n.rstd);
  Tape::attach(node, n.out);
  return n.out;
}

Tensor rms_norm(Tape& tape, const Tensor& x, const Tensor& weight) {
  const auto back = [&tape, dtype = weight->dtype](Node& node, const Tensors& gradients) {
    const Tensor x_saved = tape.unpack(node.saved[0]);
    const Tensor weight_saved = tape.unpack(node.saved[1]);
    const Tensor rstd = tape.unpack(node.saved[2]);
    return norm_back(tape, node, gradients[0], x_saved, dtype, "aten::_fused_rms_norm_backward");
  };
  const NodePtr node = tape.record({x, weight, nullptr}, back);
  tape.save(node, x);
  tape.save(node, weight);
  const Normalised n = run_norm(tape, x, weight, nullptr, false, "aten::_fused_rms_norm");
  tape.save(node, n.rstd);
  Tape::attach(node, n.out);
  return n.out;
}

Tensor cross_entropy(Tape& tape, const Tensor& logits, const Tensor& target) {
  const Tensor scores = log_softmax(tape, logits);
  return nll_loss(tape, scores, target);
}

}  // namespace foreshard::model
