// Sums over dimensions of a tensor of any strides. In float32 and in a fixed order: partial sums of ranges in the
// stream's workspace, then their sum.
#pragma once

#include "gpu/kernels/arguments.hpp"
#include "gpu/kernels/workspace.hpp"

namespace foreshard::gpu {

/// KernelOp::sum_to.
[[nodiscard]] Result<void> run_sum(const Arguments& args, Workspace& workspace);

}  // namespace foreshard::gpu
