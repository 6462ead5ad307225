// Rotary embedding, its tables, and the counter-based generator's tensors.
#pragma once

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

/// KernelOp::rope, rope_backward. x and out of any strides; may be the same memory.
[[nodiscard]] Result<void> run_rope(const Arguments& args);

/// KernelOp::random_normal, random_tokens, rotary_cos, rotary_sin, arange. Outputs without gaps. The rotary tables take
/// the same float32 steps as torch.outer(arange(s), 1 / theta ** (arange(0, d, 2) / d)), with CUDA's own powf, cosf and
/// sinf.
[[nodiscard]] Result<void> run_generator(const Arguments& args);

}  // namespace foreshard::gpu
