// A machine whose GPUs have memory for whatever is simulated, to know how much of it that takes.
//
// Who: find_remedies(), sim/tune. Pure.
#pragma once

#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// Half of the addresses that a kind of segments has (sim/machine/address_space.cpp): no run asks for as much.
inline constexpr Bytes kEnoughMemory = Bytes{8} << 40;

[[nodiscard]] inline MachineProfile with_enough_memory(MachineProfile machine) {
  machine.memory_total = kEnoughMemory;
  return machine;
}

}  // namespace foreshard::sim
