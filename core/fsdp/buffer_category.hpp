// Which memory category (parameters, gradients, …) each of FSDP2's buffers counts as, in plans and in captures.
#pragma once

#include "core/fsdp/fsdp_backend.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

/// `casts_back`: the unit casts its reduce-scatter output back to the parameters' dtype, so the output itself
/// is only a buffer of the reduce.
[[nodiscard]] constexpr MemoryCategory category_of(Buffer buffer, bool casts_back) {
  switch (buffer) {
    case Buffer::flat_cast:
    case Buffer::offload_input:
    case Buffer::offload_cast:
    case Buffer::gather:
    case Buffer::kept_input:
    case Buffer::gathered_chunks:
      return MemoryCategory::gather_buffers;
    case Buffer::unsharded:
    case Buffer::contiguous:
    case Buffer::clone:
      return MemoryCategory::unsharded_parameters;
    case Buffer::reduce_input:
    case Buffer::divided_input:
    case Buffer::gradient_chunks:
      return MemoryCategory::reduce_buffers;
    case Buffer::reduce_output:
      return casts_back ? MemoryCategory::reduce_buffers : MemoryCategory::sharded_gradients;
    case Buffer::cast_output:
      return MemoryCategory::sharded_gradients;
    case Buffer::accumulated_gradient:
      return MemoryCategory::gradients;
    case Buffer::split_metadata:
    case Buffer::chunk_cat_metadata:
    case Buffer::symmetric_array:
    case Buffer::float8_amaxes:
    case Buffer::float8_scales:
      return MemoryCategory::metadata;
  }
  return MemoryCategory::other;
}

}  // namespace foreshard
