// Ops that compute every element from the elements at the same place: add, casts, activations, dropout, SwiGLU.
// Operands of any strides, broadcast to the first output's shape. Groups of 4 or 8 through 16-byte accesses where every
// operand's last dimension allows it, element by element elsewhere.
#pragma once

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

/// KernelOp::fill to dropout_backward, swiglu, swiglu_backward.
[[nodiscard]] Result<void> run_elementwise(const Arguments& args);

/// KernelOp::cat: one strided copy a part.
[[nodiscard]] Result<void> run_cat(const Arguments& args);

/// out = x cast to out's dtype; same shape.
[[nodiscard]] Result<void> copy_elements(const Argument& out, const Argument& x, cudaStream_t stream);

}  // namespace foreshard::gpu
