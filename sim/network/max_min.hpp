// How flows share links: max-min fair, as adapters and switches serve their queue pairs in turns.
//
// A flow takes `share` of each of its links at rate 1, and never runs faster than `most`: what it reaches alone. All
// flows are raised together; one stops at its `most`, or where a link of it is full. So no flow can be raised without
// lowering one that is no faster.
//
// Who: sim/collectives for the groups of a mesh dimension side by side; sim/engine for what one GPU's collectives leave
// one another. flow_rates.hpp keeps the same rates up to date as flows come and go. Deterministic: sums are taken in
// the order of links and of flows.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "sim/network/node_pattern.hpp"

namespace foreshard::sim {

struct Flow {
  std::span<const LinkShare> shares;  ///< not owned
  double most = std::numeric_limits<double>::infinity();
};

/// The rate of each of `flows`; infinite where nothing holds it. `capacity`: by link.
[[nodiscard]] std::vector<double> max_min_rates(std::span<const double> capacity, std::span<const Flow> flows);

}  // namespace foreshard::sim
