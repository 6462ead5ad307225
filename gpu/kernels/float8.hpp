// What GEMMs in float8 need besides the product: a tensor's largest element, and the cast by it. Rows without gaps of
// bfloat16 or float16; both extents of a cast are multiples of 16. Casts equal the reference's bit for bit.
#pragma once

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

/// KernelOp::amax. Puts a memset in front of its kernel.
[[nodiscard]] Result<void> run_amax(const Arguments& args);
/// KernelOp::cast_float8.
[[nodiscard]] Result<void> run_cast_float8(const Arguments& args);
/// KernelOp::transpose_float8.
[[nodiscard]] Result<void> run_transpose_float8(const Arguments& args);

}  // namespace foreshard::gpu
