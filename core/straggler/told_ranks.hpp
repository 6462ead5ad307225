// What a plan of a fitted run must be told of its ranks. A plan of a recording repeats one rank's times on all of them,
// with that rank's own slowness: factors are over that rank. A plan of a plan repeats what the middle rank stands for.
//
// Who: cli/reports. Pure; deterministic.
#pragma once

#include <cstdint>
#include <vector>

#include "core/straggler/rank_fit.hpp"

namespace foreshard {

/// A rank that a plan of the run would not show as it is.
struct ToldRank {
  std::uint32_t rank = 0;
  double kernels = 1;          ///< a factor on what the plan has; 1: as it has them
  double host = 1;             ///< likewise
  bool own_recording = false;  ///< it runs other kernels: its own recording says that and both factors, which are 1
};

/// By rank.
[[nodiscard]] std::vector<ToldRank> told_ranks(const RanksFit& fit);

}  // namespace foreshard
