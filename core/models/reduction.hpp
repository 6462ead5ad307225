// What PyTorch's reduction kernel allocates beside its output: where few outputs are summed from many inputs, the
// thread blocks of one output meet in global memory (aten/src/ATen/native/cuda/Reduce.cuh, ReduceConfig and
// setReduceConfig, PyTorch 2.11).
//
// Who: the tape's sums of gradients (biases, norms' weights), losses. Pure.
#pragma once

#include <cstdint>

#include "core/base/quantity.hpp"

namespace foreshard::model {

struct Reduction {
  std::uint64_t outputs = 1;
  std::uint64_t inputs = 1;     ///< of each output
  bool along_memory = false;    ///< neighbours in memory go into one output (sum over the last dimension, or over all)
  Bytes accumulator_bytes = 4;  ///< sizeof(arg_t): float for float32 and bfloat16
};

struct ReductionWorkspace {
  Bytes staging = 0;     ///< partial results; 0: the blocks need no global memory, and nothing below either
  Bytes semaphores = 0;  ///< counters, set to zero by a memset before the kernel
};

[[nodiscard]] ReductionWorkspace reduction_workspace(const Reduction& reduction, std::uint32_t sm_count);

}  // namespace foreshard::model
