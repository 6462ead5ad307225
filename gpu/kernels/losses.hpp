// Log-softmax and the losses over rows of classes. Rows without gaps; float32, bfloat16 or float16; arithmetic and sums
// in float32 and in a fixed order.
#pragma once

#include "gpu/kernels/arguments.hpp"
#include "gpu/kernels/workspace.hpp"

namespace foreshard::gpu {

/// KernelOp::log_softmax, log_softmax_backward, nll_loss, nll_loss_backward, cross_entropy.
[[nodiscard]] Result<void> run_loss(const Arguments& args, Workspace& workspace);

}  // namespace foreshard::gpu
