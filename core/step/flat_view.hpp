// A buffer as a one-dimensional TensorView: how the kernels of FSDP2's sections and of the optimizer see it.
#pragma once

#include "core/kernel/kernel.hpp"

namespace foreshard {

/// `numel` elements from the block's start; absent when there are none (an empty shard has no memory).
[[nodiscard]] inline TensorView flat(std::uint64_t numel, DType dtype) {
  return {0, dtype, numel == 0, {numel}, {1}};
}

}  // namespace foreshard
