// Rotary embedding on [batch, length, heads, head_dim], halves layout.
#pragma once

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

/// KernelOp::rope, rope_backward. x and out of any strides; may be the same memory.
[[nodiscard]] Result<void> run_rope(const Arguments& args);

}  // namespace foreshard::gpu
