// torch.optim's Adam and SGD steps over lists of tensors, a launch for as many as its parameters hold
// (multi_tensor.cuh).
#pragma once

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

/// KernelOp::adam, sgd. All tensors contiguous, of float32, bfloat16 or float16.
[[nodiscard]] Result<void> run_optimizer(const Arguments& args);

}  // namespace foreshard::gpu
