// Foreshard's own small collectives: lines that carry their own flag, stored into the peers' inboxes by one kernel
// (core/device/exchange.hpp).
#pragma once

#include "sim/collectives/group.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// Whether an all-gather or reduce-scatter of foreshard's is one: small, and not of several tensors.
[[nodiscard]] bool exchanges(const Group& group);

[[nodiscard]] Estimate exchange(const MachineProfile& machine, const Group& group);

}  // namespace foreshard::sim
