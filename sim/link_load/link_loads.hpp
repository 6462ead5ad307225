// What a run's collectives put on the links of its GPU: from what any run has of them (kind, transport, bytes, group,
// begin and end) and a machine profile, so that a plan and a recording are read by one rule.
//
// The bytes of each link are those that its price counts (CollectivePrice::link_bytes and network_bytes): of NCCL's
// algorithm that the profile expects, over the GPU's NVLink and over its share of the node's adapters. Above the
// adapters each link has what the group and those beside it send over it (uplink_loads()), as if the others ran at the
// same time, which an FSDP step has them do. Times are the run's own: slow ranks, contention and links that are shared
// are in them.
//
// A link carries at most what the profile has it carry for this job: less where it is slow (Links::slow_links,
// Network::slow_adapters) or other traffic has a part of it (Network::background).
//
// Not seen: what `--beside` puts on the fabric; a link that flaps, since a run is of the job while it is up.
//
// Who: cli's explain --time, view and serve. Pure; deterministic; linear in the run but for sorting.
#pragma once

#include "core/link_load/link_load.hpp"
#include "core/run/run.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// Of the rank that the run's device ops are of. `workload`: the run's, whose process groups its own collectives are
/// among; null: it has none, and such collectives are not placed.
[[nodiscard]] LinkLoads link_loads(const Run& run, const Workload* workload, const MachineProfile& machine);

/// Of another rank, whose ops are those that Run::rank_ops has of rank `alike`. LinkTransfer::op is none.
[[nodiscard]] LinkLoads link_loads_of_rank(const Run& run, const Workload* workload, const MachineProfile& machine,
                                           std::uint32_t rank, std::uint32_t alike);

}  // namespace foreshard::sim
