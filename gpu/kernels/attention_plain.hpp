// Attention through kernels of our own, for what cuDNN does not take (attention.hpp).
#pragma once

#include "gpu/kernels/arguments.hpp"
#include "gpu/kernels/workspace.hpp"

namespace foreshard::gpu {

/// KernelOp::attention, attention_backward: any float dtype, strides and head dimensions up to 1024; float32
/// arithmetic; deterministic. The backward takes one float a query of workspace.
[[nodiscard]] Result<void> run_plain_attention(const Arguments& args, Workspace& workspace);

}  // namespace foreshard::gpu
