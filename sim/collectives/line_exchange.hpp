// Foreshard's own small collectives: lines that carry their own flag, stored into the peers' inboxes by one kernel
// (core/device/exchange.hpp).
#pragma once

#include "sim/collectives/group.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// Of a group that is `exchanged`.
[[nodiscard]] Estimate exchange(const MachineProfile& machine, const Group& group);

}  // namespace foreshard::sim
