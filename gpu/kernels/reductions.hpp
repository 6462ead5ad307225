// Sums over dimensions, softmax losses and embeddings. Sums are in float32 and in a fixed order: partial sums of ranges
// in the stream's workspace, then their sum.
#pragma once

#include "gpu/kernels/arguments.hpp"
#include "gpu/kernels/workspace.hpp"

namespace foreshard::gpu {

/// KernelOp::sum_to.
[[nodiscard]] Result<void> run_sum(const Arguments& args, Workspace& workspace);

/// KernelOp::log_softmax, log_softmax_backward, nll_loss, nll_loss_backward, cross_entropy. Rows without gaps.
[[nodiscard]] Result<void> run_loss(const Arguments& args, Workspace& workspace);

/// KernelOp::softmax, softmax_backward, causal_mask. Rows without gaps.
[[nodiscard]] Result<void> run_softmax(const Arguments& args);

/// KernelOp::embedding, embedding_backward.
[[nodiscard]] Result<void> run_embedding(const Arguments& args);

}  // namespace foreshard::gpu
