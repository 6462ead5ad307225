// What a collective's messages between nodes reach of the adapters, on the fabric and beside the other groups of its
// mesh dimension (sim/network).
//
// Nodes are numbered in order of ranks. A group's members lie `Group::node_stride` nodes apart; the groups of the other
// coordinates of the mesh run the same collective at the same time, as an FSDP step has them do.
//
// Used inside sim/collectives, and by sim/engine/demand.cpp. Pure.
#pragma once

#include <array>
#include <compare>

#include "sim/collectives/group.hpp"
#include "sim/network/node_pattern.hpp"

namespace foreshard::sim {

/// GB/s of one GPU's share of a node's healthy adapters: NCCL keeps a GPU to its nearest one, so fewer GPUs than
/// adapters do not share the rest.
[[nodiscard]] double rail_bandwidth(const MachineProfile& machine);

struct NetworkRate {
  double rate = 1;    ///< that each GPU reaches, of rail_bandwidth(); all groups side by side being served fairly
  double levels = 0;  ///< Traffic::levels
  /// Traffic of all these groups through the busiest link over what that carries, each GPU sending all that healthy
  /// adapters take; 1 on a fabric that blocks nowhere.
  double busiest = 1;
  auto operator<=>(const NetworkRate&) const = default;
};

/// Of the group at `Group::first_rank`, or of the slowest one. On one node: the default.
[[nodiscard]] NetworkRate network_rate(const MachineProfile& machine, const Group& group, NodePattern pattern);

/// By what the NVLink of the group's slowest member is slower (Links::slow_links); of any group, where none is named.
[[nodiscard]] double link_slowdown(const MachineProfile& machine, const CollectiveRequest& request);

/// What tells a group's links from another's: groups of one shape with equal links have equal prices.
struct GroupLinks {
  double link_slowdown = 1;
  std::array<NetworkRate, 3> network;  ///< by NodePattern
  auto operator<=>(const GroupLinks&) const = default;
};
[[nodiscard]] GroupLinks links_of(const MachineProfile& machine, const CollectiveRequest& request);

/// GB/s that each GPU of the group sends to other nodes.
[[nodiscard]] inline double network_per_gpu(const MachineProfile& machine, const Group& group,
                                            NodePattern pattern = NodePattern::ring) {
  return rail_bandwidth(machine) * network_rate(machine, group, pattern).rate;
}

}  // namespace foreshard::sim
