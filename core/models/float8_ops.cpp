#include "core/models/float8_ops.hpp"

#include "core/kernel/own_kernels.hpp"
#include "core/models/ops.hpp"

namespace foreshard::model {
namespace {

constexpr DType kOfOperands = DType::float8_e4m3fn;
constexpr DType kOfGradients = DType::float8_e5m2;

/// A matrix in float8; what is not asked for is null.
struct Cast {
  Tensor plain;
  Tensor transposed;
  Tensor scale;  ///< what undoes the cast: float32, one element
};
enum class Layouts : std::uint8_t { plain, transposed, both };

Tensor amax(Tape& tape, const Tensor& x) {
  Tensor out = tape.empty({}, DType::float32);
  tape.launch(own_label(KernelOp::amax), KernelOp::amax, out, x);
  return out;
}

Cast cast(Tape& tape, const Tensor& x, const Tensor& largest, DType dtype, Layouts layouts) {
  Cast out;
  if (layouts != Layouts::transposed) out.plain = tape.empty(x->shape, dtype);
  if (layouts != Layouts::plain) out.transposed = tape.empty({x->dim(1), x->dim(0)}, dtype);
  out.scale = tape.empty({}, DType::float32);
  tape.launch(own_label(KernelOp::cast_float8), KernelOp::cast_float8, out.plain, out.transposed, out.scale, x,
              largest);
  return out;
}

/// A weight that was gathered in float8, and what undoes its cast.
bool gathered(const Tensor& weight) {
  return is_float8(weight->dtype);
}
Tensor scale_of(const Tensor& weight) {
  return Tape::elsewhere({Operand::Kind::scale, weight->elsewhere.id}, {}, DType::float32);
}

/// What a weight is cast by: its largest element; of one that was gathered in float8 it is known, and here what undoes
/// the cast stands for it.
Tensor measure(Tape& tape, const Tensor& weight) {
  return gathered(weight) ? scale_of(weight) : amax(tape, weight);
}
Cast cast_weight(Tape& tape, const Tensor& weight, const Tensor& measured, Layouts layouts) {
  if (!gathered(weight)) return cast(tape, weight, measured, kOfOperands, layouts);
  Cast out{weight, {}, measured};
  if (layouts == Layouts::plain) return out;
  out.transposed = tape.empty({weight->dim(1), weight->dim(0)}, weight->dtype);
  tape.launch(own_label(KernelOp::transpose_float8), KernelOp::transpose_float8, out.transposed, weight);
  return out;
}

/// out = a × bᵀ, into a new matrix or added to `out`: a [m, k] and b [n, k] lie along k.
void multiply(Tape& tape, Tensor& out, const Tensor& a, const Tensor& a_scale, const Tensor& b, const Tensor& b_scale) {
  const bool adds = out != nullptr;
  if (!adds) out = tape.empty({a->dim(0), b->dim(0)}, DType::bfloat16);
  const bool fast = a->dtype == kOfOperands;
  tape.launch("aten::_scaled_mm", {.op = KernelOp::scaled_mm, .accumulate = adds, .integers = {fast ? 1 : 0}}, out, a,
              transpose(tape, b, 0, 1), a_scale, b_scale);
}

/// What one weight's part of the node keeps, behind what all share: x and its scale.
constexpr std::size_t kShared = 2;
constexpr std::size_t kOfWeight = 2;

Tensors gradients_of(Tape& tape, Node& node, const Tensors& gradients) {
  Tensors kept;
  for (Saved& saved : node.saved) kept.push_back(tape.unpack(saved));
  Tensors out(node.next.size());
  for (std::size_t i = gradients.size(); i-- > 0;) {
    const Tensor gradient = contiguous(tape, gradients[i]);
    Cast dy = cast(tape, gradient, amax(tape, gradient), kOfGradients, Layouts::both);
    if (node.wants(1 + i)) multiply(tape, out[1 + i], dy.transposed, dy.scale, kept[0], kept[1]);
    dy.transposed.reset();
    if (!node.wants(0)) continue;
    const Tensor& weight = kept[kShared + i * kOfWeight];
    const Cast w = cast_weight(tape, weight, kept[kShared + i * kOfWeight + 1], Layouts::transposed);
    multiply(tape, out[0], dy.plain, dy.scale, w.transposed, w.scale);
  }
  return out;
}

Tensor product(Tape& tape, const Cast& x, const Tensor& weight, const Tensor& measured) {
  if (const Tensors kept = tape.reuse(Selected::product); !kept.empty()) return kept[0];
  const Cast w = cast_weight(tape, weight, measured, Layouts::plain);
  Tensor out;
  multiply(tape, out, x.plain, x.scale, w.plain, w.scale);
  tape.keep(Selected::product, {out});
  return out;
}

}  // namespace

Tensors float8_linear(Tape& tape, const Tensor& x, const Tensors& weights) {
  Tensors inputs{x};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  const auto back = [&tape](Node& node, const Tensors& gradients) { return gradients_of(tape, node, gradients); };
  const NodePtr node = tape.record(inputs, back, static_cast<std::uint32_t>(weights.size()));
  Cast cast_x = cast(tape, x, amax(tape, x), kOfOperands, node ? Layouts::both : Layouts::plain);
  if (node) tape.save(node, cast_x.transposed);
  tape.save(node, cast_x.scale);
  cast_x.transposed.reset();
  Tensors out;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Tensor measured = measure(tape, weights[i]);
    tape.save(node, weights[i]);
    tape.save(node, measured);  // a checkpointed region that runs again ends here, before its last product
    out.push_back(product(tape, cast_x, weights[i], measured));
    Tape::attach(node, out.back(), static_cast<std::uint32_t>(i));
  }
  return out;
}

}  // namespace foreshard::model
