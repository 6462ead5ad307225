// Sizes of the device buffers that hold copy metadata around an all-gather's copy-out and a
// reduce-scatter's copy-in. They sit on the compute stream and are part of byte-exact peaks.
//
// Sources: split_with_sizes_copy_out_contiguous_no_cast_into_tensors and _chunk_cat_out_cuda,
// aten/src/ATen/native/cuda/TensorShape.cu of PyTorch 2.11; formulas checked against recorded sizes
// (fsdp2 semantics 2.6, 3.3).
#pragma once

#include <cstdint>
#include <span>

#include "core/base/quantity.hpp"

namespace foreshard {

/// Copy-out of an all-gather over `ranks`: `chunk_bytes[i]` is one rank's chunk of target i.
/// `sm_count` SMs of 2,048 threads each (Hopper and Ampere data-centre GPUs).
[[nodiscard]] Bytes split_metadata_bytes(std::span<const Bytes> chunk_bytes, std::uint32_t ranks,
                                         std::uint32_t sm_count);

/// Copy-in of a reduce-scatter: `chunk_bytes[i]` is one rank's padded chunk of gradient i in the reduce
/// dtype.
[[nodiscard]] Bytes chunk_cat_metadata_bytes(std::span<const Bytes> chunk_bytes);

}  // namespace foreshard
