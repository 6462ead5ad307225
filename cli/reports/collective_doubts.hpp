// Why a collective's price rests on no measurement of the same on this machine.
//
// Who: `foreshard collectives`, of its sizes and of the rows of --against. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/collectives/collective_cost.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::cli {

/// GPUs a node, nodes.
struct JobShape {
  std::uint32_t gpus = 1, nodes = 1;
};

/// A sentence each, without a full stop: the price's caveat, what leaves the profile's valid range, a node of more GPUs
/// than the profile's. Empty where none is: the price is valid.
[[nodiscard]] std::vector<std::string> doubts(const sim::MachineProfile& machine, const sim::CollectiveRequest& request,
                                              const sim::CollectivePrice& price, JobShape job);

}  // namespace foreshard::cli
