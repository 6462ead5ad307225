// The h200 profile and a shorthand for prices on it.
#pragma once

#include "core/device/collective_names.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {

inline const MachineProfile& h200() {
  static const MachineProfile kProfile = *builtin_profile("h200");
  return kProfile;
}

/// h200 without its measured tables: the mechanisms alone.
inline const MachineProfile& bare_h200() {
  static const MachineProfile kProfile = [] {
    MachineProfile profile = h200();
    profile.collectives.clear();
    return profile;
  }();
  return kProfile;
}

inline CollectivePrice price(const MachineProfile& machine, CollectiveKind kind, Transport transport, Bytes bytes,
                             std::uint32_t ranks, std::uint32_t ranks_per_node = 8) {
  return ModelledCollectives(machine).price({kind, transport, bytes, ranks, ranks_per_node});
}

}  // namespace foreshard::sim
