#include "core/models/walk.hpp"

namespace foreshard::model {
namespace {

/// Whether the elements fill one stretch of memory, in whatever order of dimensions.
bool dense(const Tensor& x) {
  std::uint64_t span = 1;
  for (std::size_t i = 0; i < x->shape.size(); ++i)
    if (x->shape[i] > 0) span += (x->shape[i] - 1) * x->strides[i];
  return span == x->numel();
}

bool lies_like(const Tensor& a, const Tensor& b) {
  if (a->shape != b->shape) return false;
  for (std::size_t i = 0; i < a->shape.size(); ++i)
    if (a->shape[i] > 1 && a->strides[i] != b->strides[i]) return false;
  return true;
}

}  // namespace

void mark(Tape& tape, MemoryAccess access, std::uint64_t elements, DType dtype) {
  KernelMath& math = tape.ops().back().kernel.math;
  math.access = access;
  math.m = elements;
  math.dtype = dtype;
}

void mark_elementwise(Tape& tape, const Tensors& inputs, const Tensor& out) {
  MemoryAccess access = dense(out) ? MemoryAccess::contiguous : MemoryAccess::strided;
  DType narrowest = out->dtype;
  const Tensor* first = nullptr;
  for (const Tensor& input : inputs) {
    if (!input || input->numel() <= 1) continue;  // a scalar is a kernel argument, or cached
    if (first && (*first)->dtype != input->dtype) access = MemoryAccess::mixed;
    if (!first) first = &input;
    if (itemsize(input->dtype) < itemsize(narrowest)) narrowest = input->dtype;
    const bool upcasts = itemsize(input->dtype) < itemsize(out->dtype);
    if (access == MemoryAccess::contiguous && (upcasts || !lies_like(input, out))) access = MemoryAccess::strided;
  }
  mark(tape, access, out->numel(), narrowest);
}

}  // namespace foreshard::model
