// How a launch's kernel walks memory, for the device that prices it (core/device/device.hpp, MemoryAccess).
//
// Who: the ops, right after Tape::launch(). Marks the tape's last op; changes nothing else.
#pragma once

#include "core/models/tape.hpp"

namespace foreshard::model {

void mark(Tape& tape, MemoryAccess access, std::uint64_t elements, DType dtype);

/// A TensorIterator kernel from `inputs` to `out`: contiguous where all lie in memory alike, without gaps, and a cast
/// does not widen; mixed where inputs of several elements differ in dtype; strided otherwise
/// (aten/src/ATen/native/cuda/ CUDALoops.cuh, gpu_kernel_impl, PyTorch 2.11).
void mark_elementwise(Tape& tape, const Tensors& inputs, const Tensor& out);

}  // namespace foreshard::model
