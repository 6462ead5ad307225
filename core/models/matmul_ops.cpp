#include <algorithm>

#include "core/models/fused_ops.hpp"
#include "core/models/ops.hpp"

namespace foreshard::model {
namespace {

/// prepare_matrix_for_cublas (ATen/native/cuda/Blas.cpp): other strides are copied first.
bool takes_as_is(const Tensor& x) {
  const std::uint64_t rows = x->shape[0];
  const std::uint64_t columns = x->shape[1];
  const bool by_row = (x->strides[1] == 1 || columns == 1) && x->strides[0] >= std::max<std::uint64_t>(1, columns);
  const bool by_column = (x->strides[0] == 1 || rows == 1) && x->strides[1] >= std::max<std::uint64_t>(1, rows);
  return by_row || by_column;
}

Tensor run_mm(Tape& tape, const Tensor& a, const Tensor& b, std::string_view label, const Tensor& bias = nullptr) {
  if (const Tensors kept = tape.reuse(Selected::product); !kept.empty()) return kept[0];
  Tensor out = tape.empty({a->shape[0], b->shape[1]}, a->dtype);
  Tensor left;
  Tensor right;
  if (!takes_as_is(a)) left = clone(tape, a);
  if (!takes_as_is(b)) right = clone(tape, b);
  if (bias) tape.need_cublas_lt();
  tape.launch(label, KernelOp::gemm, out, left ? left : a, right ? right : b, bias);
  tape.keep(Selected::product, {out});
  return out;
}

/// bmm_out_cuda_impl: as mm for each matrix (prepare_batch_matrix_for_cublas). Operands have a unit stride.
Tensor run_bmm(Tape& tape, const Tensor& a, const Tensor& b) {
  Tensor out = tape.empty({a->shape[0], a->shape[1], b->shape[2]}, a->dtype);
  tape.launch("aten::bmm", KernelOp::gemm, out, a, b);
  return out;
}

Tensor t(Tape& tape, const Tensor& x) {
  return transpose(tape, x, 0, 1);
}

bool by_columns(const Tensor& x) {
  return x->strides[0] == 1 && x->strides[1] == x->shape[0];
}

/// mm_mat2_backward, mm_mat1_backward (FunctionsManual.cpp): the gradient gets its operand's layout.
Tensor gradient_of_right(Tape& tape, const Tensor& gradient, const Tensor& left, bool columns) {
  if (!columns) return run_mm(tape, t(tape, left), gradient, "aten::mm");
  return t(tape, run_mm(tape, t(tape, gradient), left, "aten::mm"));
}

Tensor gradient_of_left(Tape& tape, const Tensor& gradient, const Tensor& right, bool columns) {
  if (!columns) return run_mm(tape, gradient, t(tape, right), "aten::mm");
  return t(tape, run_mm(tape, right, t(tape, gradient), "aten::mm"));
}

/// gradient × right into a new matrix, or added to `into`.
void add_gradient_of_left(Tape& tape, Tensor& into, const Tensor& gradient, const Tensor& right) {
  if (!into) {
    into = run_mm(tape, gradient, right, "aten::mm");
    return;
  }
  tape.launch("aten::addmm_", {.op = KernelOp::gemm, .accumulate = true}, into, gradient, right);
}

}  // namespace

Tensors joined_linear(Tape& tape, const Tensor& x, const Tensors& weights) {
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    Tensors out(node.next.size());
    Tensor input;
    Tensors kept;
    for (std::size_t i = 0; i < node.saved.size(); ++i)
      (i == 0 ? input : kept.emplace_back()) = tape.unpack(node.saved[i]);
    for (std::size_t i = gradients.size(); i-- > 0;) {
      if (node.wants(1 + i)) out[1 + i] = run_mm(tape, t(tape, gradients[i]), input, "aten::mm");
      if (node.wants(0)) add_gradient_of_left(tape, out[0], gradients[i], kept[i]);
    }
    return out;
  };
  Tensors inputs{x};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  const NodePtr node = tape.record(inputs, back, static_cast<std::uint32_t>(weights.size()));
  for (const Tensor& input : inputs) tape.save(node, input);
  Tensors out;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    out.push_back(run_mm(tape, x, t(tape, weights[i]), "aten::mm"));
    Tape::attach(node, out.back(), static_cast<std::uint32_t>(i));
  }
  return out;
}

Tensor mm(Tape& tape, const Tensor& a, const Tensor& b) {
  // saved: mat2, self; derivatives in the same order.
  const bool save_b = a->requires_grad;
  const auto back = [&tape, save_b, a_columns = by_columns(a), b_columns = by_columns(b)](Node& node,
                                                                                          const Tensors& gradients) {
    Tensor right;
    Tensor left;
    if (save_b) right = tape.unpack(node.saved[0]);
    if (node.wants(1)) left = tape.unpack(node.saved[save_b ? 1 : 0]);
    Tensors out(2);
    if (node.wants(1)) out[1] = gradient_of_right(tape, gradients[0], left, b_columns);
    if (node.wants(0)) out[0] = gradient_of_left(tape, gradients[0], right, a_columns);
    left.reset();
    return out;
  };
  const NodePtr node = tape.record({a, b}, back);
  if (a->requires_grad) tape.save(node, b);
  if (b->requires_grad) tape.save(node, a);
  Tensor out = run_mm(tape, a, b, "aten::mm");
  Tape::attach(node, out);
  return out;
}

Tensor bmm(Tape& tape, const Tensor& a, const Tensor& b) {
  // saved: mat2, self; derivatives in the same order.
  const bool save_b = a->requires_grad;
  const auto back = [&tape, save_b](Node& node, const Tensors& gradients) {
    Tensor right;
    Tensor left;
    if (save_b) right = tape.unpack(node.saved[0]);
    if (node.wants(1)) left = tape.unpack(node.saved[save_b ? 1 : 0]);
    Tensors out(2);
    if (node.wants(1)) out[1] = run_bmm(tape, transpose(tape, left, 1, 2), gradients[0]);
    if (node.wants(0)) out[0] = run_bmm(tape, gradients[0], transpose(tape, right, 1, 2));
    left.reset();
    return out;
  };
  const NodePtr node = tape.record({a, b}, back);
  if (a->requires_grad) tape.save(node, b);
  if (b->requires_grad) tape.save(node, a);
  Tensor out = run_bmm(tape, a, b);
  Tape::attach(node, out);
  return out;
}

Tensor addmm(Tape& tape, const Tensor& bias, const Tensor& a, const Tensor& b) {
  // saved: mat1, mat2; derivatives: mat1, mat2, self (the engine sums it to the bias' size).
  const bool save_a = b->requires_grad;
  const auto back = [&tape, save_a, a_columns = by_columns(a), b_columns = by_columns(b)](Node& node,
                                                                                          const Tensors& gradients) {
    Tensor left;
    Tensor right;
    if (save_a) left = tape.unpack(node.saved[0]);
    if (node.wants(1)) right = tape.unpack(node.saved[save_a ? 1 : 0]);
    Tensors out(3);
    if (node.wants(1)) out[1] = gradient_of_left(tape, gradients[0], right, a_columns);
    if (node.wants(2)) out[2] = gradient_of_right(tape, gradients[0], left, b_columns);
    if (node.wants(0)) out[0] = gradients[0];
    right.reset();
    return out;
  };
  const NodePtr node = tape.record({bias, a, b}, back);
  if (b->requires_grad) tape.save(node, a);
  if (a->requires_grad) tape.save(node, b);
  Tensor out = run_mm(tape, a, b, "aten::addmm", bias);
  Tape::attach(node, out);
  return out;
}

Tensor linear(Tape& tape, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const std::uint64_t in = x->dim(-1);
  Shape shape = x->shape;
  shape.back() = weight->shape[0];
  if (bias) {  // _flatten_nd_linear
    if (x->shape.size() == 2) return addmm(tape, bias, x, t(tape, weight));
    const Tensor flat = reshape(tape, x, {x->numel() / in, in});
    return view(tape, addmm(tape, bias, flat, t(tape, weight)), shape);
  }
  const Tensor columns = t(tape, weight);
  if (x->shape.size() == 2) return mm(tape, x, columns);
  // at::matmul folds the leading dimensions.
  const Tensor flat = reshape(tape, x, {x->numel() / in, in});
  return unsafe_view(tape, mm(tape, flat, columns), shape);
}

}  // namespace foreshard::model
