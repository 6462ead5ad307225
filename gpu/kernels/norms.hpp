// Layer norm and RMS norm over the last dimension, forward and backward, alone and fused with the residual's addition.
// One block a row; sums in float32 in a fixed order. The weights' gradients are two passes: partial sums of row ranges
// in the stream's workspace, then their sum.
#pragma once

#include "gpu/kernels/arguments.hpp"
#include "gpu/kernels/workspace.hpp"

namespace foreshard::gpu {

/// KernelOp::layer_norm to rms_norm_backward_weight, add_rms_norm, add_rms_norm_backward.
[[nodiscard]] Result<void> run_norm(const Arguments& args, Workspace& workspace);

}  // namespace foreshard::gpu
