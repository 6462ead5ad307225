// What attention by parts needs besides its GEMMs (aten::_scaled_dot_product_attention_math). Rows without gaps;
// float32, bfloat16 or float16; arithmetic and sums in float32 and in a fixed order.
#pragma once

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

/// KernelOp::softmax, softmax_backward, causal_mask.
[[nodiscard]] Result<void> run_softmax(const Arguments& args);

}  // namespace foreshard::gpu
