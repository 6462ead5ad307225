// torch._foreach_* passes over lists of tensors, a launch for as many as its parameters hold (multi_tensor.cuh).
#pragma once

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

/// KernelOp::foreach_*. All tensors contiguous, of one dtype: float32, bfloat16 or float16.
[[nodiscard]] Result<void> run_foreach(const Arguments& args);

}  // namespace foreshard::gpu
