// A communicator's groups over the ranks of a job.
#pragma once

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

[[nodiscard]] inline StridedGroups groups_of(const CommunicatorOptions& communicator) {
  if (communicator.members.size() < 2) return {communicator.ranks, 1};
  return {communicator.ranks, communicator.members[1] - communicator.members[0]};
}

}  // namespace foreshard::sim
