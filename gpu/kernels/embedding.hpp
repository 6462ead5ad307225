// Embedding tables: rows picked by index, and their gradients summed by index. Contiguous operands of float32, bfloat16
// or float16, int64 indices. Sums are in float32, in the order of the indices: no atomics.
#pragma once

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

/// KernelOp::embedding, embedding_backward.
[[nodiscard]] Result<void> run_embedding(const Arguments& args);

}  // namespace foreshard::gpu
