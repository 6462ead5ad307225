// Whose kernels a step launches for what FSDP2, autograd and the optimizer do: eager PyTorch's or foreshard's own.
#pragma once

#include <cstdint>

namespace foreshard {

/// Chosen by name, once a run (StepRequest::lowering). Values are stored; never renumber.
enum class Lowering : std::uint8_t {
  /// What eager PyTorch issues: helper kernels beside FSDP2's own, and metadata copied to the device.
  pytorch = 0,
  /// What `foreshard run` issues: one kernel where PyTorch has several, its metadata among its parameters. A workload
  /// that does not say what its kernels compute is emulated: PyTorch's ops, in foreshard's process.
  foreshard = 1,
};

}  // namespace foreshard
