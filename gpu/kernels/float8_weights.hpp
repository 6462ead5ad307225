// What weights that are gathered in float8 need of their shards: the largest elements, and the casts into an
// all-gather's block. Flat tensors of float32, bfloat16 or float16. Both equal the reference bit for bit.
#pragma once

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

/// KernelOp::shard_amaxes. Puts a memset in front of its kernels.
[[nodiscard]] Result<void> run_shard_amaxes(const Arguments& args);
/// KernelOp::copy_in_float8.
[[nodiscard]] Result<void> run_copy_in_float8(const Arguments& args);

}  // namespace foreshard::gpu
