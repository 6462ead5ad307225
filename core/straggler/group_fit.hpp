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

/// Groups whose times are closer than this are alike. An assumption: there is no recording yet of all ranks of a job
/// with several groups of one shape.
inline constexpr double kAlikeLinks = 0.05;

namespace straggler_detail {

/// The slower ones, by lowest rank. Groups have one shape where their ranks, and the nodes of these, lie alike behind
/// the first; a group of which a rank was not recorded is left out, since its last rank is not known.
[[nodiscard]] std::vector<GroupFit> slower_groups(const Run& run, const std::set<std::int32_t>& steps);

}  // namespace straggler_detail
}  // namespace foreshard
