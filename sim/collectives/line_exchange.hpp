// Foreshard's own small collectives: lines that carry their own flag, stored into the peers' inboxes by one kernel
// (core/device/exchange.hpp).
#pragma once

#include "sim/collectives/group.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// Whether the call is one that foreshard's own collectives exchange (Group::exchanged), and the machine one whose GPUs
/// NVLink joins: elsewhere they keep to copy engines and to reading the peers, as on GPUs (gpu/collectives/
/// symm_mem_collectives.cpp, find_links()).
[[nodiscard]] inline bool exchanges(const MachineProfile& machine, const Group& group) {
  return group.exchanged && !machine.links.pcie;
}

/// Of a group that exchanges().
[[nodiscard]] Estimate exchange(const MachineProfile& machine, const Group& group);

}  // namespace foreshard::sim
