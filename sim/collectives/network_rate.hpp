// What a collective's messages between nodes reach of the adapters, on the fabric and beside the other groups of its
// mesh dimension (sim/network).
//
// Nodes are numbered in order of ranks. A group's members lie `Group::node_stride` nodes apart; the groups of the other
// coordinates of the mesh run the same collective at the same time, as an FSDP step has them do.
//
// Used inside sim/collectives, and by sim/engine/demand.cpp; sim/predict asks what tells groups apart. Pure.
#pragma once

#include <array>
#include <compare>
#include <map>
#include <vector>

#include "sim/collectives/group.hpp"
#include "sim/network/node_pattern.hpp"

namespace foreshard::sim {

/// GB/s of one GPU's share of a node's healthy adapters, of which NCCL deals it as many as there are for each GPU of
/// the node (ncclTopoGetLocalNet): the node's, so that GPUs that take no part leave theirs idle.
[[nodiscard]] double rail_bandwidth(const MachineProfile& machine);

/// On which nodes the group at `Group::first_rank` is, or the first one, where a node has so many ranks.
[[nodiscard]] Placement placement_of(const Group& group, std::uint32_t node_ranks);

struct NetworkRate {
  double rate = 1;    ///< that each GPU reaches, of rail_bandwidth(); all groups side by side being served fairly
  double levels = 0;  ///< Traffic::levels
  double step = 0;    ///< Traffic::longest_step
  auto operator<=>(const NetworkRate&) const = default;
};

/// Of the group at `Group::first_rank`, or of the slowest one. On one node: the default.
[[nodiscard]] NetworkRate network_rate(const MachineProfile& machine, const Group& group, NodePattern pattern);

/// One step of a ring from a member's node to the next one's.
struct RingHopRate {
  double rate = 1;    ///< of rail_bandwidth(): what its fullest link leaves each of the steps that cross it
  double levels = 0;  ///< of switches that it leaves
  auto operator<=>(const RingHopRate&) const = default;
};

/// Of each group of those side by side, by its first node: by member node, on `rail`. Of several nodes.
[[nodiscard]] std::map<std::uint32_t, std::vector<RingHopRate>> ring_hop_rates(const MachineProfile& machine,
                                                                               const Group& group, std::uint32_t rail);

/// What the group's collective, and those of the groups beside it, put on a link above the adapters.
struct UplinkLoad {
  Link link;
  double share = 0;  ///< of what a GPU of the group sends to other nodes: 2: twice as many bytes go over the link
};
/// Of the links out of the switches above the group's first member, by level (Fabric::above()), and of a level's links
/// the one that most goes over; on its first member's rail. Empty: on one node, or nothing blocks above the adapters.
[[nodiscard]] std::vector<UplinkLoad> uplink_loads(const MachineProfile& machine, const Group& group,
                                                   NodePattern pattern);

/// GPUs of a node that the run uses.
[[nodiscard]] std::uint32_t node_ranks(const MachineProfile& machine, const Group& group);

/// By what the NVLink of the group's slowest member is slower (Links::slow_links); of any group, where none is named.
[[nodiscard]] double link_slowdown(const MachineProfile& machine, const CollectiveRequest& request);

/// What tells a group's links from another's: groups of one shape with equal links have equal prices.
struct GroupLinks {
  double link_slowdown = 1;
  std::array<NetworkRate, kNodePatterns.size()> network;  ///< by NodePattern
  auto operator<=>(const GroupLinks&) const = default;
};

/// GroupLinks of many groups: those of one shape are looked at together, once.
class LinksOfGroups {
 public:
  /// `machine` must outlive it.
  explicit LinksOfGroups(const MachineProfile& machine) : machine_(machine) {}
  /// Of a request that names its first rank.
  [[nodiscard]] GroupLinks of(const CollectiveRequest& request);

 private:
  struct Shape {
    std::uint32_t nodes, stride, all_nodes, rail;
    NodePattern pattern;
    double other_rail;
    auto operator<=>(const Shape&) const = default;
  };
  const MachineProfile& machine_;
  std::map<Shape, std::map<std::uint32_t, NetworkRate>> known_;  // by first node
};

/// GB/s that each GPU of the group sends to other nodes.
[[nodiscard]] inline double network_per_gpu(const MachineProfile& machine, const Group& group,
                                            NodePattern pattern = NodePattern::ring) {
  return rail_bandwidth(machine) * network_rate(machine, group, pattern).rate;
}

}  // namespace foreshard::sim
