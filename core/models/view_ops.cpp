#include <optional>

#include "core/base/check.hpp"
#include "core/models/ops.hpp"

namespace foreshard::model {
namespace {

const CostOverride kZeroed = at_the_rate("zeros of a slice's or a split's backward, by their bytes");

std::size_t axis(const Tensor& x, int dim) {
  return dim < 0 ? x->shape.size() + static_cast<std::size_t>(dim) : static_cast<std::size_t>(dim);
}

/// at::detail::computeStride: the strides of a view of `shape`; nothing where the memory does not allow one.
std::optional<Shape> view_strides(const TensorImpl& x, const Shape& shape) {
  Shape strides(shape.size(), 1);
  if (x.shape.empty()) return strides;
  std::size_t to = shape.size();
  std::uint64_t chunk_base = x.strides.back();
  std::uint64_t chunk_numel = 1;
  std::uint64_t view_numel = 1;
  for (std::size_t d = x.shape.size(); d-- > 0;) {
    chunk_numel *= x.shape[d];
    const bool ends = d == 0 || (x.shape[d - 1] != 1 && x.strides[d - 1] != chunk_numel * chunk_base);
    if (!ends) continue;
    while (to > 0 && (view_numel < chunk_numel || shape[to - 1] == 1)) {
      --to;
      strides[to] = view_numel * chunk_base;
      view_numel *= shape[to];
    }
    if (view_numel != chunk_numel) return std::nullopt;
    if (d > 0) {
      chunk_base = x.strides[d - 1];
      chunk_numel = 1;
      view_numel = 1;
    }
  }
  return to == 0 ? std::optional<Shape>(strides) : std::nullopt;
}

/// grad.reshape(self.sizes): ViewBackward, UnsafeViewBackward.
Node::Apply reshape_back(Tape& tape, const Shape& shape) {
  return [&tape, shape](Node&, const Tensors& gradients) { return Tensors{reshape(tape, gradients[0], shape)}; };
}

struct Slice {
  std::size_t dim;
  std::uint64_t start;
  std::uint64_t length;
  std::uint64_t step;
};

Tensor slice_of(Tape& tape, const Tensor& x, const Slice& s, bool tracked) {
  Shape shape = x->shape;
  Shape strides = x->strides;
  shape[s.dim] = s.length;
  strides[s.dim] *= s.step;
  return tape.alias(x, shape, strides, tracked, s.start * x->strides[s.dim]);
}

Tensor slice(Tape& tape, const Tensor& x, const Slice& s) {
  tape.spend(HostCall::view);
  Tensor out = slice_of(tape, x, s, true);
  // slice_backward: zeros of the input's size, the gradient copied in.
  const auto back = [&tape, full = x->shape, s](Node&, const Tensors& gradients) {
    const Tensor& gradient = gradients[0];
    Tensor zeros = tape.empty(full, gradient->dtype);
    tape.launch_priced("aten::zero_", {.op = KernelOp::fill, .alpha = 0}, kZeroed, zeros);
    const CostOverride into_slice{
        "a slice of the first dimension is dense, yet written as any other",
        {},
        KernelMath{.dtype = gradient->dtype, .m = gradient->numel(), .access = MemoryAccess::strided}};
    tape.launch_priced("aten::copy_", {.op = KernelOp::copy}, into_slice, slice_of(tape, zeros, s, false), gradient);
    return Tensors{zeros};
  };
  Tape::attach(tape.record({x}, back), out);
  return out;
}

}  // namespace

Tensor view(Tape& tape, const Tensor& x, const Shape& shape) {
  tape.spend(HostCall::view);
  const auto strides = view_strides(*x, shape);
  FORESHARD_CHECK(strides.has_value(), "a view of memory that allows none");
  Tensor out = tape.alias(x, shape, *strides);
  Tape::attach(tape.record({x}, reshape_back(tape, x->shape)), out);
  return out;
}

Tensor unsafe_view(Tape& tape, const Tensor& x, const Shape& shape) {
  const auto strides = view_strides(*x, shape);
  FORESHARD_CHECK(strides.has_value(), "a view of memory that allows none");
  Tensor out = tape.alias(x, shape, *strides, false);
  Tape::attach(tape.record({x}, reshape_back(tape, x->shape)), out);
  return out;
}

Tensor reshape(Tape& tape, const Tensor& x, const Shape& shape) {
  if (view_strides(*x, shape)) return view(tape, x, shape);
  return unsafe_view(tape, clone(tape, x), shape);
}

Tensor transpose(Tape& tape, const Tensor& x, int a, int b) {
  tape.spend(tape.in_backward() ? HostCall::backward_view : HostCall::view);
  Shape shape = x->shape;
  Shape strides = x->strides;
  std::swap(shape[axis(x, a)], shape[axis(x, b)]);
  std::swap(strides[axis(x, a)], strides[axis(x, b)]);
  Tensor out = tape.alias(x, shape, strides);
  out->parameter = {};
  const auto back = [&tape, a, b](Node&, const Tensors& gradients) {
    return Tensors{transpose(tape, gradients[0], a, b)};
  };
  Tape::attach(tape.record({x}, back), out);
  return out;
}

Tensor narrow(Tape& tape, const Tensor& x, int dim, std::uint64_t start, std::uint64_t length) {
  return slice(tape, x, {axis(x, dim), start, length, 1});
}

Tensor every_second(Tape& tape, const Tensor& x, int dim, std::uint64_t start) {
  const std::uint64_t length = (x->dim(dim) - start + 1) / 2;
  return slice(tape, x, {axis(x, dim), start, length, 2});
}

Tensor copy_into(Tape& tape, const Tensor& base, std::uint64_t start, const Tensor& part) {
  const Slice at{axis(base, -1), start, part->dim(-1), 1};
  // CopySlices::apply: the gradient copied, that of the slice cloned and given to CopyBackwards, whose zeros take its
  // place.
  const auto back = [&tape, at](Node& node, const Tensors& gradients) {
    const Tensor result = tape.empty_like(gradients[0]);
    tape.copy(result, gradients[0], "aten::copy_");
    const Tensor slice = slice_of(tape, result, at, false);
    Tensor of_part = clone(tape, slice);
    if (node.wants(0)) {
      const Tensor zeros = tape.empty(slice->shape, slice->dtype);
      tape.launch_priced("aten::zero_", {.op = KernelOp::fill, .alpha = 0}, kZeroed, zeros);
      tape.launch("aten::copy_", KernelOp::copy, slice, zeros);
    }
    return Tensors{node.wants(0) ? result : nullptr, of_part};
  };
  const NodePtr node = tape.record({base, part}, back);
  tape.launch("aten::copy_", KernelOp::copy, slice_of(tape, base, at, false), part);
  Tensor out = tape.alias(base, base->shape, base->strides, false);
  Tape::attach(node, out);
  return out;
}

Tensors split(Tape& tape, const Tensor& x, int dim, std::span<const std::uint64_t> sizes) {
  tape.spend(HostCall::view);
  // split_backward: zeros for what has no gradient, then one cat.
  const auto count = static_cast<std::uint32_t>(sizes.size());
  const auto back = [&tape, dim, shape = x->shape, at = axis(x, dim),
                     sizes = std::vector<std::uint64_t>(sizes.begin(), sizes.end())](Node&, const Tensors& gradients) {
    Tensors parts = gradients;
    DType dtype = DType::float32;
    for (const Tensor& g : gradients)
      if (g) dtype = g->dtype;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i]) continue;
      Shape part = shape;
      part[at] = sizes[i];
      parts[i] = tape.empty(part, dtype);
      tape.launch_priced("aten::zero_", {.op = KernelOp::fill, .alpha = 0}, kZeroed, parts[i]);
    }
    return Tensors{cat(tape, parts, dim)};
  };
  const NodePtr node = tape.record({x}, back, count);
  Tensors out;
  std::uint64_t offset = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    Shape shape = x->shape;
    shape[axis(x, dim)] = sizes[i];
    out.push_back(tape.alias(x, shape, x->strides, true, offset));
    Tape::attach(node, out.back(), i);
    offset += sizes[i] * x->strides[axis(x, dim)];
  }
  return out;
}

Tensors chunk(Tape& tape, const Tensor& x, int dim, std::uint64_t chunks) {
  const std::vector<std::uint64_t> sizes(chunks, x->dim(dim) / chunks);
  return split(tape, x, dim, sizes);
}

Tensor expand(Tape& tape, const Tensor& x, const Shape& shape) {
  tape.spend(HostCall::view);
  Shape strides(shape.size(), 0);
  for (std::size_t i = 0; i < x->shape.size(); ++i) {
    const std::size_t to = shape.size() - x->shape.size() + i;
    strides[to] = x->shape[i] == shape[to] ? x->strides[i] : 0;
  }
  Tensor out = tape.alias(x, shape, strides);
  const auto back = [&tape, to = x->shape](Node&, const Tensors& gradients) {
    const Tensor& gradient = gradients[0];
    if (gradient->shape == to) return gradients;
    Tensor sum = tape.empty(to, gradient->dtype);  // at::sum_to
    tape.launch_sum("aten::sum", sum, gradient, 1, at_the_rate("over whichever dimensions were expanded"));
    return Tensors{sum};
  };
  Tape::attach(tape.record({x}, back), out);
  return out;
}

Tensor unsqueeze(Tape& tape, const Tensor& x, int dim) {
  tape.spend(HostCall::view);
  const std::size_t at = dim < 0 ? x->shape.size() + 1 + static_cast<std::size_t>(dim) : static_cast<std::size_t>(dim);
  Shape shape = x->shape;
  Shape strides = x->strides;
  const std::uint64_t stride = at < shape.size() ? shape[at] * strides[at] : 1;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), 1);
  strides.insert(strides.begin() + static_cast<std::ptrdiff_t>(at), stride);
  Tensor out = tape.alias(x, shape, strides);
  Tape::attach(tape.record({x}, reshape_back(tape, x->shape)), out);
  return out;
}

Tensor clone(Tape& tape, const Tensor& x) {
  const auto back = [](Node&, const Tensors& gradients) { return gradients; };
  const NodePtr node = tape.record({x}, back);
  Tensor out = tape.empty(x->shape, x->dtype);
  tape.launch("aten::copy_", KernelOp::copy, out, x);
  Tape::attach(node, out);
  return out;
}

Tensor contiguous(Tape& tape, const Tensor& x) {
  return x->contiguous() ? x : clone(tape, x);
}

}  // namespace foreshard::model
