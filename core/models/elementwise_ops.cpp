#include <algorithm>
#include <optional>

#include "core/kernel/kernel_cost.hpp"
#include "core/models/ops.hpp"

namespace foreshard::model {
namespace {

/// c10::promoteTypes for the dtypes of a model.
DType promote(DType a, DType b) {
  if (a == b) return a;
  const auto rank = [](DType d) {
    switch (d) {
      case DType::float64:
        return 5;
      case DType::float32:
        return 4;
      case DType::bfloat16:
      case DType::float16:
        return 3;
      case DType::int64:
        return 2;
      default:
        return 1;
    }
  };
  if (rank(a) == rank(b)) return DType::float32;  // bfloat16 with float16
  return rank(a) > rank(b) ? a : b;
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape out = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  const std::size_t offset = out.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) out[offset + i] = std::max(out[offset + i], shorter[i]);
  return out;
}

/// A TensorIterator's output: dense, dimensions in the order of the first operand of full size.
Tensor output_of(Tape& tape, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast(a->shape, b->shape);
  const DType dtype = promote(a->dtype, b->dtype);
  if (a->shape == shape) return tape.empty_like(a, dtype);
  if (b->shape == shape) return tape.empty_like(b, dtype);
  return tape.empty(shape, dtype);
}

Tensor run_binary(Tape& tape, const Tensor& a, const Tensor& b, std::string_view label, KernelOp op) {
  Tensor out = output_of(tape, a, b);
  tape.launch(label, op, out, a, b);
  return out;
}

/// A TensorIterator kernel that no op stands for.
void launch_unnamed(Tape& tape, std::string_view label, const Tensor& out, const Tensors& inputs) {
  std::vector<TensorView> views{view_of(*out)};
  for (const Tensor& x : inputs) views.push_back(view_of(*x));
  tape.launch(Launch::elementwise, label, elementwise_cost(views));
}

Tensor run_unary(Tape& tape, const Tensor& x, std::string_view label) {
  Tensor out = tape.empty_like(x);
  launch_unnamed(tape, label, out, {x});
  return out;
}

Tensor run_unary(Tape& tape, const Tensor& x, std::string_view label, KernelOp op, double alpha = 1) {
  Tensor out = tape.empty_like(x);
  tape.launch(label, {.op = op, .alpha = alpha}, out, x);
  return out;
}

/// An activation's forward and backward; nothing for those that no op stands for.
struct ActivationOps {
  KernelOp forward;
  KernelOp backward;
};
std::optional<ActivationOps> ops_of(std::string_view label) {
  if (label == "aten::silu") return ActivationOps{KernelOp::silu, KernelOp::silu_backward};
  if (label == "aten::gelu") return ActivationOps{KernelOp::gelu, KernelOp::gelu_backward};
  return std::nullopt;
}

/// pow_tensor_scalar: a first power is a memcpy.
Tensor run_power(Tape& tape, const Tensor& x, int exponent) {
  if (exponent != 1) return run_unary(tape, x, "aten::pow");
  Tensor out = tape.empty_like(x);
  tape.copy(out, x, "aten::copy_");
  return out;
}

}  // namespace

Kernel random_tokens(std::uint64_t vocabulary) {
  return {.op = KernelOp::random_tokens, .integers = {kStreamOfStep, 0, static_cast<std::int64_t>(vocabulary)}};
}

Tensor add(Tape& tape, const Tensor& a, const Tensor& b) {
  const auto back = [](Node& node, const Tensors& gradients) {
    return Tensors{node.wants(0) ? gradients[0] : nullptr, node.wants(1) ? gradients[0] : nullptr};
  };
  const NodePtr node = tape.record({a, b}, back);
  Tensor out = run_binary(tape, a, b, "aten::add", KernelOp::add);
  Tape::attach(node, out);
  return out;
}

Tensor sub(Tape& tape, const Tensor& a, const Tensor& b) {
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    Tensor other;
    if (node.wants(1)) other = run_unary(tape, gradients[0], "aten::neg", KernelOp::neg);
    return Tensors{node.wants(0) ? gradients[0] : nullptr, other};
  };
  const NodePtr node = tape.record({a, b}, back);
  Tensor out = run_binary(tape, a, b, "aten::sub", KernelOp::sub);
  Tape::attach(node, out);
  return out;
}

Tensor mul(Tape& tape, const Tensor& a, const Tensor& b) {
  // saved: other (for self's gradient), then self; derivatives in the same order: other, self.
  const bool save_other = a->requires_grad;
  const auto back = [&tape, save_other](Node& node, const Tensors& gradients) {
    Tensor other;
    Tensor self;
    if (save_other) other = tape.unpack(node.saved[0]);
    if (node.wants(1)) self = tape.unpack(node.saved[save_other ? 1 : 0]);
    Tensors out(2);
    if (node.wants(1)) out[1] = run_binary(tape, gradients[0], self, "aten::mul", KernelOp::mul);
    if (node.wants(0)) out[0] = run_binary(tape, gradients[0], other, "aten::mul", KernelOp::mul);
    self.reset();
    return out;
  };
  const NodePtr node = tape.record({a, b}, back);
  if (a->requires_grad) tape.save(node, b);
  if (b->requires_grad) tape.save(node, a);
  Tensor out = run_binary(tape, a, b, "aten::mul", KernelOp::mul);
  Tape::attach(node, out);
  return out;
}

Tensor mul_scalar(Tape& tape, const Tensor& a, double factor) {
  const auto back = [&tape, factor](Node&, const Tensors& gradients) {
    return Tensors{run_unary(tape, gradients[0], "aten::mul", KernelOp::mul_scalar, factor)};
  };
  const NodePtr node = tape.record({a}, back);
  Tensor out = run_unary(tape, a, "aten::mul", KernelOp::mul_scalar, factor);
  Tape::attach(node, out);
  return out;
}

Tensor add_scalar(Tape& tape, const Tensor& a, double summand) {
  const auto back = [](Node&, const Tensors& gradients) { return gradients; };
  const NodePtr node = tape.record({a}, back);
  Tensor out = run_unary(tape, a, "aten::add", KernelOp::add_scalar, summand);
  Tape::attach(node, out);
  return out;
}

Tensor neg(Tape& tape, const Tensor& x) {
  const auto back = [&tape](Node&, const Tensors& gradients) {
    return Tensors{run_unary(tape, gradients[0], "aten::neg", KernelOp::neg)};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = run_unary(tape, x, "aten::neg", KernelOp::neg);
  Tape::attach(node, out);
  return out;
}

Tensor activation(Tape& tape, const Tensor& x, std::string_view label) {
  const auto ops = ops_of(label);
  const auto back = [&tape, label, ops](Node& node, const Tensors& gradients) {
    const Tensor self = tape.unpack(node.saved[0]);
    Tensor out = tape.empty_like(gradients[0]);
    if (ops)
      tape.launch(label, ops->backward, out, gradients[0], self);
    else
      launch_unnamed(tape, label, out, {gradients[0], self});
    return Tensors{out};
  };
  const NodePtr node = tape.record({x}, back);
  tape.save(node, x);
  Tensor out = ops ? run_unary(tape, x, label, ops->forward) : run_unary(tape, x, label);
  Tape::attach(node, out);
  return out;
}

Tensor of_result(Tape& tape, const Tensor& x, std::string_view label) {
  const auto back = [&tape, label](Node& node, const Tensors& gradients) {
    const Tensor result = tape.unpack(node.saved[0]);
    Tensor out = tape.empty_like(gradients[0]);
    launch_unnamed(tape, label, out, {gradients[0], result});
    return Tensors{out};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = run_unary(tape, x, label);
  Tape::attach(node, out);
  tape.save(node, out);
  return out;
}

Tensor pow(Tape& tape, const Tensor& x, int exponent) {
  // pow_backward: exponent * grad * self.pow(exponent - 1).
  const auto back = [&tape, exponent](Node& node, const Tensors& gradients) {
    const Tensor self = tape.unpack(node.saved[0]);
    const Tensor power = run_power(tape, self, exponent - 1);
    const Tensor scaled = run_unary(tape, gradients[0], "aten::mul");
    return Tensors{run_binary(tape, scaled, power, "aten::mul", KernelOp::mul)};
  };
  const NodePtr node = tape.record({x}, back);
  tape.save(node, x);
  Tensor out = run_power(tape, x, exponent);
  Tape::attach(node, out);
  return out;
}

Tensor rsqrt(Tape& tape, const Tensor& x) {
  // -0.5 * grad * result.pow(3)
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    const Tensor result = tape.unpack(node.saved[0]);
    const Tensor power = run_power(tape, result, 3);
    const Tensor scaled = run_unary(tape, gradients[0], "aten::mul");
    return Tensors{run_binary(tape, scaled, power, "aten::mul", KernelOp::mul)};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = run_unary(tape, x, "aten::rsqrt");
  tape.save(node, out);
  Tape::attach(node, out);
  return out;
}

Tensor to(Tape& tape, const Tensor& x, DType dtype) {
  if (x->dtype == dtype) return x;
  const auto back = [&tape, from = x->dtype](Node&, const Tensors& gradients) {
    return Tensors{to(tape, gradients[0], from)};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = tape.empty_like(x, dtype);
  tape.launch("aten::copy_", KernelOp::copy, out, x);
  Tape::attach(node, out);
  return out;
}

Tensor cat(Tape& tape, const Tensors& parts, int dim) {
  // cat_tensors_backward: narrow views of the gradient.
  const auto back = [&tape, dim](Node& node, const Tensors& gradients) {
    Tensors out(node.next.size());
    std::uint64_t start = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t at =
          static_cast<std::size_t>(dim < 0 ? dim + static_cast<int>(gradients[0]->shape.size()) : dim);
      const std::uint64_t length = node.inputs[i].shape[at];
      if (node.wants(i)) out[i] = narrow(tape, gradients[0], dim, start, length);
      start += length;
    }
    return out;
  };
  const NodePtr node = tape.record(parts, back);
  Shape shape = parts[0]->shape;
  const std::size_t at = static_cast<std::size_t>(dim < 0 ? dim + static_cast<int>(shape.size()) : dim);
  shape[at] = 0;
  for (const Tensor& part : parts) shape[at] += part->shape[at];
  Tensor out = tape.empty(shape, parts[0]->dtype);
  Tensors operands{out};
  operands.insert(operands.end(), parts.begin(), parts.end());
  tape.launch("aten::cat", {.op = KernelOp::cat, .integers = {static_cast<std::int64_t>(at)}}, operands);
  operands.clear();
  Tape::attach(node, out);
  return out;
}

Tensor dropout(Tape& tape, const Tensor& x, double p) {
  // native_dropout_backward: grad * mask * scale; the mask is result1.
  const auto back = [&tape, p](Node& node, const Tensors& gradients) {
    const Tensor mask = tape.unpack(node.saved[0]);
    Tensor out = tape.empty_like(gradients[0]);
    tape.launch("aten::native_dropout_backward", {.op = KernelOp::dropout_backward, .alpha = p}, out, gradients[0],
                mask);
    return Tensors{out};
  };
  const NodePtr node = tape.record({x}, back);
  const Tensor mask = tape.empty_like(x, DType::bool8);
  Tensor out = tape.empty_like(x);
  const auto first = static_cast<std::int64_t>(tape.draw(x->numel()));
  tape.launch("aten::native_dropout", {.op = KernelOp::dropout, .alpha = p, .integers = {kStreamOfStep, first}}, out,
              mask, x);
  tape.save(node, mask);
  Tape::attach(node, out);
  return out;
}

Tensor run_kernel(Tape& tape, const Tensors& inputs, const Shape& shape, DType dtype, std::string_view label,
                  Launch kind) {
  Tensor out = tape.empty(shape, dtype);
  std::vector<TensorView> views{view_of(*out)};
  for (const Tensor& input : inputs) views.push_back(view_of(*input));
  KernelWork cost = elementwise_cost(views);
  if (kind == Launch::reduction && inputs.empty())
    cost.math = {};
  else if (kind == Launch::reduction)
    cost.math = {.dtype = inputs[0]->dtype, .m = inputs[0]->numel(), .access = MemoryAccess::row};
  tape.launch(kind, label, cost);
  return out;
}

}  // namespace foreshard::model
