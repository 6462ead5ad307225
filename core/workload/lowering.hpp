// Whose host program a step follows: which ops stand for what FSDP2, autograd and the optimizer do.
#pragma once

#include <cstdint>

#include "core/settings/settings.hpp"

namespace foreshard {

/// Chosen by name, once a run (StepRequest::lowering). Values are stored; never renumber.
enum class Lowering : std::uint8_t {
  /// What eager PyTorch issues: helper kernels beside FSDP2's own, and metadata copied to the device.
  pytorch = 0,
  /// What `foreshard run` issues: one kernel where PyTorch has several, its metadata among its parameters. A workload
  /// that does not say what its kernels compute is emulated: PyTorch's ops, in foreshard's process.
  foreshard = 1,
};

/// `settings` as that program carries them out. This is the one place where a transport stands for another: foreshard
/// has no low-contention reduce-scatter of PyTorch's kind and runs its own pull-reduce, by whichever name it was asked.
[[nodiscard]] inline Settings carried_out(Lowering lowering, Settings settings) {
  if (lowering == Lowering::foreshard && settings.reduce_scatter == Transport::low_contention)
    settings.reduce_scatter = Transport::pull_reduce;
  return settings;
}

}  // namespace foreshard
