// Ranks that nothing tells apart, as one: exact, since a collective begins with the last of its ranks and ends with the
// slowest, and a maximum does not count how often a number stands in it.
//
// Classes are refined until they stand still: two ranks are of one class where they have equal traits and, in each
// communicator, the same set of classes beside them. Where groups share links, also where theirs put as much on links
// that are alike: of one capacity, with as many groups of the same classes on them. Max-min shares of such groups are
// equal, since exchanging them changes nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/strided_groups.hpp"
#include "sim/ranks/rank_traits.hpp"

namespace foreshard::sim {

struct RankClasses {
  struct Class {
    std::uint32_t first = 0;           ///< its lowest rank
    std::uint32_t count = 0;           ///< ranks
    std::vector<std::uint32_t> group;  ///< by communicator: index into `groups`
  };
  /// The same collective on one or several groups of equal classes.
  struct Group {
    std::uint32_t communicator = 0;
    std::vector<std::uint32_t> classes;  ///< ascending
  };
  std::vector<std::uint32_t> of_rank;
  std::vector<Class> classes;  ///< by lowest rank
  std::vector<Group> groups;
};

/// Links on which groups meet. Equal numbers mean equal things.
struct SharedLinks {
  struct Use {
    std::uint32_t link = 0;
    std::uint32_t share = 0;
  };
  struct Group {
    std::uint32_t communicator = 0;
    std::uint32_t first = 0;  ///< its lowest rank
    std::uint32_t kind = 0;
    std::vector<Use> uses;
  };
  std::vector<std::uint32_t> links;  ///< the capacity of each, at all times
  std::vector<Group> groups;
};

/// `fold` false: every rank is a class of its own. `shared`: null where groups do not meet.
[[nodiscard]] RankClasses rank_classes(const std::vector<RankTraits>& traits,
                                       const std::vector<JobGroups>& communicators, bool fold = true,
                                       const SharedLinks* shared = nullptr);

}  // namespace foreshard::sim
