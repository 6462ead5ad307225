// Tensors made from nothing but numbers: the counter-based generator's (core/kernel/kernel.hpp), rotary tables, arange.
#pragma once

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

/// KernelOp::random_normal, random_tokens, rotary_cos, rotary_sin, arange. Outputs without gaps. The rotary tables take
/// the same float32 steps as torch.outer(arange(s), 1 / theta ** (arange(0, d, 2) / d)), with CUDA's own powf, cosf and
/// sinf.
[[nodiscard]] Result<void> run_generator(const Arguments& args);

}  // namespace foreshard::gpu
