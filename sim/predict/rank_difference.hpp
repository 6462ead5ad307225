// What a plan is told of ranks that are unlike the others, and what it tells of them.
#pragma once

#include <cstdint>

#include "core/workload/workload.hpp"
#include "sim/ranks/rank_traits.hpp"

namespace foreshard::sim {

/// A rank that is unlike the others; factors as RankTraits's.
struct RankDifference {
  std::uint32_t rank = 0;
  double kernels = 1;
  double host = 1;
  /// What it runs instead, adapted to the same settings; null: what the others run. Not owned.
  const Workload* workload = nullptr;
};

/// Ranks that nothing tells apart.
struct RankGroup {
  std::uint32_t first = 0;  ///< the lowest of them
  std::uint32_t count = 0;
  RankTraits traits;
};

}  // namespace foreshard::sim
