// Collectives on copy engines: NCCL's zero-CTA all-gather and the low-contention pair of pytorch#130583;
// foreshard's pull-reduce. One node only.
// docs/collectives.md.
#pragma once

#include "sim/collectives/group.hpp"

namespace foreshard::sim {

/// NCCL 2.28.9 src/ce_coll.cc: a barrier, n−1 pushes that one engine serves in turn, a barrier. No SM.
[[nodiscard]] Estimate copy_engine_gather(const MachineProfile& machine, const Group& group);

/// pytorch#130583 `_low_contention_all_gather`: a barrier kernel, n pulls of which one is local, a barrier kernel.
[[nodiscard]] Estimate low_contention_gather(const MachineProfile& machine, const Group& group);

/// `_low_contention_reduce_scatter`: a barrier, pulls of this rank's chunk from every peer into a temporary as large
/// as the input, a barrier, and one kernel that adds them.
[[nodiscard]] Estimate low_contention_scatter(const MachineProfile& machine, const Group& group);

/// foreshard's own reduce-scatter (gpu/collectives/reduce_kernel.hpp): one kernel of a few CTAs reads all peers' parts
/// and adds them in order, with no temporary. It holds SMs and moves memory as NCCL's symmetric kernels do, and as the
/// probe's rows concurrent with it are fitted (sim/calibrate/fit_contention.cpp).
[[nodiscard]] Estimate pull_reduce(const MachineProfile& machine, const Group& group);

}  // namespace foreshard::sim
