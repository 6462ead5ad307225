// Which of a collective's steps between nodes leave their leaf switch, and what is left of the bandwidth there.
//
// Nodes are numbered in order of ranks, and `Network::leaf_nodes` consecutive ones share a leaf. A group's members lie
// `Group::node_stride` nodes apart; the groups of the other coordinates of the mesh run side by side with it and share
// the leaf's uplinks, which carry leaf_nodes / oversubscription times what a node sends. The slowest leaf counts: the
// step waits for all groups.
//
// Used inside sim/collectives. Pure; linear in the run's nodes, times a logarithm for trees.
#pragma once

#include <cstdint>

#include "sim/collectives/group.hpp"

namespace foreshard::sim {

struct LeafTraffic {
  double hops = 0;  ///< the most steps of one message, one after another, that leave a leaf
  double slowdown =
      1;  ///< of what a node sends: traffic out of the busiest leaf over what its uplinks carry, at least 1
};

/// The steps of these from node to node:
///   * ring: node i sends to node i + 1, the last one to the first (NCCL, src/graph/connect.cc, connectRings). A
///   message
///     makes all of them but one.
///   * tree: both trees of ncclGetDtree (src/graph/trees.cc), each with half of the bytes, up and down every edge. A
///     node with its four edges sends all it can. Hops are those up.
///   * all_to_all: every node sends an equal part to every other node, in one step.
[[nodiscard]] LeafTraffic leaf_traffic(const Network& network, const Group& group, NodePattern pattern);

}  // namespace foreshard::sim
