// Groups of links that are slower than others of their shape: a collective moves bytes from its last rank's start on,
// so each group's collectives of one kind and size are held against those of the middle group, each by the lower
// quartile of its times.
//
// Who: rank_fit.cpp. Pure; deterministic.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/run/run.hpp"
#include "core/straggler/fitted_factor.hpp"

namespace foreshard {

/// A group of one communicator whose collectives move more slowly than the same ones of the middle group.
struct GroupFit {
  std::vector<std::uint32_t> ranks;
  std::string collective;  ///< "all-gather"
  FittedFactor time;
};

/// What links could be held against one another.
struct ComparedLinks {
  std::uint32_t groups = 0;    ///< of which all ranks are recorded, with collectives in the steps
  std::uint32_t compared = 0;  ///< of those the ones that have another of their shape beside them
  double furthest = 0;         ///< how far the times of the furthest of these are from the middle group's
};

/// Groups whose times are closer than this are alike. An assumption: there is no recording yet of all ranks of a job
/// with several groups of one shape.
inline constexpr double kAlikeLinks = 0.05;

namespace straggler_detail {

struct LinksFit {
  std::vector<GroupFit> slower;  ///< by lowest rank
  ComparedLinks compared;
};

/// Groups have one shape where their ranks, and the nodes of these, lie alike behind
/// the first; a group of which a rank was not recorded is left out, since its last rank is not known.
[[nodiscard]] LinksFit fit_links(const Run& run, const std::set<std::int32_t>& steps);

}  // namespace straggler_detail
}  // namespace foreshard
