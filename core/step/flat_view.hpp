// The view that FSDP2's sections and the optimizer have of a buffer: elements in a row.
#pragma once

#include "core/kernel/kernel.hpp"

namespace foreshard {

/// `numel` elements from the block's start; absent when there are none (an empty shard has no memory).
[[nodiscard]] inline TensorView flat(std::uint64_t numel, DType dtype) {
  return {0, dtype, numel == 0, {numel}, {1}};
}

}  // namespace foreshard
