// Collectives on copy engines: NCCL's zero-CTA all-gather and the low-contention pair of pytorch#130583. One node only.
// docs/collectives.md.
#pragma once

#include "sim/collectives/group.hpp"

namespace foreshard::sim {

/// NCCL 2.28.9 src/ce_coll.cc: a barrier, n−1 pushes that one engine serves in turn, a barrier. No SM.
[[nodiscard]] Estimate copy_engine_gather(const MachineProfile& machine, const Group& group);

/// pytorch#130583 `_low_contention_all_gather`: a barrier kernel, n pulls of which one is local, a barrier kernel.
/// `foreshard run` does something else by that name, n−1 pushes between flags (gpu/collectives/transfer_plan.hpp),
/// whose times only a probed profile's tables have.
[[nodiscard]] Estimate low_contention_gather(const MachineProfile& machine, const Group& group);

/// `_low_contention_reduce_scatter`: a barrier, pulls of this rank's chunk from every peer into a temporary as large
/// as the input, a barrier, and one kernel that adds them.
[[nodiscard]] Estimate low_contention_scatter(const MachineProfile& machine, const Group& group);

/// Microseconds of barriers, and of pulls of n shards of which the own one moves inside this GPU's memory, where it
/// becomes `written` bytes.
[[nodiscard]] double pulls_us(const MachineProfile& machine, const Group& group, double written);

}  // namespace foreshard::sim
