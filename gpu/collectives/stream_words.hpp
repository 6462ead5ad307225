// Words that a stream writes, or waits for, between its work: in memory of the device, or mapped host memory.
//
// Who: torch_group.cpp, replayable_collectives.cpp.
#pragma once

#include <span>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "gpu/collectives/driver.hpp"

namespace foreshard::gpu {

/// After all work before it, and its writes.
inline CUstreamBatchMemOpParams write_word(Address address, std::uint32_t value) {
  CUstreamBatchMemOpParams op{};
  op.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  op.writeValue.address = address;
  op.writeValue.value = value;
  op.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  return op;
}

/// Until it is 1 or more.
inline CUstreamBatchMemOpParams wait_word(Address address) {
  CUstreamBatchMemOpParams op{};
  op.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  op.waitValue.address = address;
  op.waitValue.value = 1;
  op.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  return op;
}

[[nodiscard]] inline Result<void> put_words(std::span<CUstreamBatchMemOpParams> ops, cudaStream_t stream) {
  return check((*driver())->stream_batch_mem_op(stream, static_cast<unsigned>(ops.size()), ops.data(), 0),
               "cuStreamBatchMemOp");
}

}  // namespace foreshard::gpu
