// Which messages between nodes are for another rail than their sender's, and who carries them there.
//
// A GPU's messages leave by its own adapter, unless NCCL_P2P_PXN_LEVEL says otherwise, which it does (2): a send to a
// GPU of another node leaves by the adapter near the GPU that has the receiver's number here, and is written over
// NVLink into that GPU's memory first (PXN; NCCL 2.28.9 src/graph/search.cc, ncclTopoGetNetDev, and
// src/graph/paths.cc). It never changes rail in the switches then. With level 0, or NCCL_PXN_DISABLE=1, it leaves by
// the sender's adapter and comes in by the receiver's. Level 1 takes PXN where the other adapter lies behind the CPU,
// as on HGX nodes all others do. Rings and trees stay on their rails either way.
//
// Used inside sim/collectives, and by sim/ranks/job_network.cpp. Pure.
#pragma once

#include "sim/collectives/group.hpp"

namespace foreshard::sim {

/// Of what a group's ranks send to other nodes in a `send` or an `all_to_all`, the share whose receiver keeps to
/// another adapter than its sender's.
[[nodiscard]] double other_rail_share(const MachineProfile& machine, const Group& group, NodePattern pattern);

/// NVLink carries that share to the adapter of the receiver's rail.
[[nodiscard]] bool relays_by_pxn(const MachineProfile& machine);

/// Neither NVLink nor a switch brings a message to another rail.
[[nodiscard]] bool rails_apart(const MachineProfile& machine);

/// Of that share, what changes rail in the switches: all or nothing.
[[nodiscard]] double other_rail_in_switches(const MachineProfile& machine, const Group& group, NodePattern pattern);

}  // namespace foreshard::sim
