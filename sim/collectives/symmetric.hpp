// NCCL's kernels over symmetric windows: peers' memory is stored to and loaded from directly, without FIFO and ring.
// NCCL 2.28.9 src/sym_kernels.cc; one node only.
#pragma once

#include "sim/collectives/group.hpp"

namespace foreshard::sim {

/// All-gather (LL, stores, or multicast stores where `links.nvls`) or reduce-scatter (LL, loads, or in-switch sums).
/// Kernel and CTAs are chosen with NCCL's own numbers, those of `seen`; time follows the rates of the machine.
[[nodiscard]] Estimate symmetric(const MachineProfile& machine, const MachineProfile& seen, const Group& group);

}  // namespace foreshard::sim
