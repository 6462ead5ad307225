// foreshard's own reduce-scatter (gpu/collectives/reduce_kernel.hpp): one kernel of a few CTAs reads all peers' parts
// and adds them in order, with no temporary. One node only. docs/collectives.md.
#pragma once

#include "sim/collectives/group.hpp"

namespace foreshard::sim {

/// It holds SMs and moves memory as NCCL's symmetric kernels do; its part in contention is fitted to the probe's rows
/// of kernels beside it (sim/calibrate/fit_contention.cpp).
[[nodiscard]] Estimate pull_reduce(const MachineProfile& machine, const Group& group);

}  // namespace foreshard::sim
