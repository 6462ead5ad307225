// The links between a machine's nodes, and the way from one node to another.
//
// One rail: what one GPU of each node has of the network. NCCL keeps the traffic of a GPU on its rail (nearest adapter,
// PXN: NCCL 2.28.9, src/graph/search.cc, src/graph/paths.cc), all GPUs of a node send alike, and a switch divides its
// uplinks among them, so that a fabric is as many equal ones as a node has GPUs. Where an adapter is slower, its rail
// is unlike the others. Without PXN messages change rail in the switches (route_to_other_rail).
//
// Who: sim/collectives asks what a pattern of messages reaches. Built once, then constant.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/machine/links.hpp"

namespace foreshard::sim {

struct Link {
  enum class Kind : std::uint8_t {
    adapter_out,  ///< `place`: the node
    adapter_in,   ///< the same
    up,           ///< out of a leaf switch or a pod; `place`: which one of its level
    down,         ///< into one
    global,       ///< of a dragonfly: from group `place` to group `to`
  };
  Kind kind = Kind::adapter_out;
  std::uint32_t place = 0;
  std::uint32_t to = 0;
  double capacity = 1;  ///< of one direction, less what other traffic takes (BackgroundLoad); 1: what a GPU's share of
                        ///< healthy adapters carries
};

class Fabric {
 public:
  /// `nodes` of `network`, as the GPUs numbered `rail` of each see it; `gpus`: of a node.
  Fabric(const Network& network, std::uint32_t gpus, std::uint32_t nodes, std::uint32_t rail = 0);

  [[nodiscard]] const std::vector<Link>& links() const { return links_; }
  [[nodiscard]] std::uint32_t adapter_out(std::uint32_t node) const { return node; }
  [[nodiscard]] std::uint32_t adapter_in(std::uint32_t node) const { return nodes_ + node; }
  /// The switches above the adapters on the way from `a` to `b`, appended to `way`; how many levels it leaves.
  std::uint32_t route(std::uint32_t a, std::uint32_t b, std::vector<std::uint32_t>& way) const;
  /// The same to another rail's adapter in `b`: where a switch is of one rail, up from it in any case. By symmetry the
  /// links of the other rail are taken for this one's.
  std::uint32_t route_to_other_rail(std::uint32_t a, std::uint32_t b, std::vector<std::uint32_t>& way) const;
  /// Out of the leaf switch numbered so; into it comes next. Of a tree of switches that has leaves.
  [[nodiscard]] std::uint32_t leaf_uplink(std::uint32_t leaf) const { return levels_[0].first_link + 2 * leaf; }
  /// The links out of the switches above `node`, by level from its leaf up: of a tree one a level, of a dragonfly those
  /// of its group to all others, as one level. Empty: no switch is left.
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> above(std::uint32_t node) const;

 private:
  /// Switches that each have `below` consecutive nodes under them.
  struct Level {
    std::uint32_t below = 0;
    std::uint32_t first_link = 0;  ///< up of its first switch; down of it comes next
  };

  /// `leaves`: levels that are left even where all is below one switch.
  std::uint32_t climb(std::uint32_t a, std::uint32_t b, std::size_t leaves, std::vector<std::uint32_t>& way) const;
  void add_level(std::uint32_t below, double uplinks);
  void add_dragonfly(const Network& network);

  std::uint32_t nodes_;
  std::vector<Link> links_;
  std::vector<Level> levels_;      ///< from leaves up
  std::uint32_t group_nodes_ = 0;  ///< of a dragonfly; 0: none
  std::uint32_t groups_ = 0;
  std::uint32_t first_global_ = 0;
};

/// A message to another rail leaves by its sender's own adapter and comes there through the switches, each of which is
/// of one rail.
[[nodiscard]] inline bool changes_rail_in_switches(const Network& network) {
  return network.rail_switches && network.rails_linked && !network.pxn;
}

/// Which of a node's adapters the GPU on `rail` keeps to: the nearest, where that is known (Network::adapter_of_gpu);
/// else they are dealt to the GPUs in order, as PCIe switches have them.
[[nodiscard]] inline std::uint32_t adapter_of(const Network& network, std::uint32_t gpus, std::uint32_t rail) {
  if (rail < network.adapter_of_gpu.size()) return network.adapter_of_gpu[rail];
  return rail * network.nics / gpus;
}

/// By what the adapter of `rail` in `node` is slower than a healthy one, at least 1.
[[nodiscard]] double adapter_slowdown(const Network& network, std::uint32_t gpus, std::uint32_t node,
                                      std::uint32_t rail);
/// What that adapter carries for the job in one direction (Link::capacity).
[[nodiscard]] double adapter_capacity(const Network& network, std::uint32_t gpus, std::uint32_t node,
                                      std::uint32_t rail);

}  // namespace foreshard::sim
