// How many bytes a computation's operands have: what a kernel moves that touches each of them once.
//
// Who: sim prices kernels by it that come without their elements (FSDP2's sections, optimizers), gpu/probe measures
// them by it.
#pragma once

#include "core/kernel/computation.hpp"

namespace foreshard {

[[nodiscard]] inline Bytes operand_bytes(const Computation& computation) {
  Bytes bytes = 0;
  for (const TensorView& view : computation.operands)
    if (!view.absent) bytes += view.numel() * itemsize(view.dtype);
  return bytes;
}

}  // namespace foreshard
