// A communicator's groups over the ranks of a job, and over those of two jobs on one fabric.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

#include "core/device/device.hpp"

namespace foreshard::sim {

/// `ranks` of them, `stride` apart, as every mesh dimension has them.
struct StridedGroups {
  std::uint32_t ranks = 1;
  std::uint32_t stride = 1;

  /// The lowest rank of `rank`'s group.
  [[nodiscard]] std::uint32_t first(std::uint32_t rank) const { return rank - rank / stride % ranks * stride; }
  auto operator<=>(const StridedGroups&) const = default;
};

/// The same of two jobs side by side: of the first `own_ranks` ranks `own`, behind them `beside`, whose job counts its
/// ranks from there.
struct JobGroups {
  StridedGroups own;
  std::uint32_t own_ranks = UINT32_MAX;  ///< all
  StridedGroups beside = {};

  [[nodiscard]] const StridedGroups& of(std::uint32_t rank) const { return rank < own_ranks ? own : beside; }
  [[nodiscard]] std::uint32_t first(std::uint32_t rank) const {
    return rank < own_ranks ? own.first(rank) : own_ranks + beside.first(rank - own_ranks);
  }
  /// Behind the last rank of `rank`'s job, of `ranks` of both.
  [[nodiscard]] std::uint32_t end(std::uint32_t rank, std::uint32_t ranks) const {
    return rank < own_ranks ? std::min(own_ranks, ranks) : ranks;
  }
};

[[nodiscard]] inline StridedGroups groups_of(const CommunicatorOptions& communicator) {
  if (communicator.members.size() < 2) return {communicator.ranks, 1};
  return {communicator.ranks, communicator.members[1] - communicator.members[0]};
}

}  // namespace foreshard::sim
