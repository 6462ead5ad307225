// What a job with more GPUs a node than a machine's nodes have is taken for.
//
// Who: sim/predict and `foreshard collectives`, which are not valid then. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// One sentence without a full stop; empty where the node has so many.
[[nodiscard]] std::string node_note(const MachineProfile& machine, std::uint32_t gpus);

}  // namespace foreshard::sim
