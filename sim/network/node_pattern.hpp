// Which node sends how much to which in a collective, and what each link carries of it.
//
// A group's members lie `stride` nodes apart. The steps from node to node:
//   * ring: member i sends to member i + 1, the last one to the first (NCCL, src/graph/connect.cc, connectRings). A
//     message makes all of them but one.
//   * tree: both trees of ncclGetDtree (src/graph/trees.cc), each with half of the bytes, up and down every edge. A
//     node with its four edges sends all it can.
//   * send: the same steps, of messages of which some may be for another rail.
//   * all_to_all: every node sends an equal part to every other node, in one step.
//   * aggregation: switches add and multicast (SHARP, through NCCL's CollNet): a node sends what it has up once and
//     gets the sum once; a switch sends one sum up for all nodes below it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/network/fabric.hpp"

namespace foreshard::sim {

enum class NodePattern : std::uint8_t { ring, tree, send, all_to_all, aggregation };
inline constexpr std::array kNodePatterns{NodePattern::ring, NodePattern::tree, NodePattern::send,
                                          NodePattern::all_to_all, NodePattern::aggregation};
/// Those that a collective on `network` can have.
[[nodiscard]] inline std::span<const NodePattern> node_patterns(const Network& network) {
  return std::span(kNodePatterns).first(network.sharp ? kNodePatterns.size() : kNodePatterns.size() - 1);
}

/// Members are on nodes `first`, `first` + `stride`, … of a fabric.
struct Placement {
  std::uint32_t first = 0;
  std::uint32_t stride = 1;
  std::uint32_t count = 1;

  [[nodiscard]] std::uint32_t node(std::uint32_t member) const { return first + member * stride; }
};

/// What a flow takes of a link at rate 1: every step of a ring has 1, an edge of a tree 0.25 (a node with all four
/// edges sends 1), a pair of an all-to-all of n members 1 / (n - 1), all of an aggregation's links 1.
struct LinkShare {
  std::uint32_t link = 0;
  double share = 0;
};

struct Traffic {
  std::vector<LinkShare> shares;  ///< by link, ascending
  /// The most levels of switches that one message leaves on its way, one step after another; of a tree on its way up.
  double levels = 0;
  double longest_step = 0;  ///< levels that the longest of its steps leaves
};

/// Linear in the members, times a logarithm for trees; all-to-alls are quadratic in the switches that have some.
/// `other_rail`: of sends and all-to-alls, the share of bytes that changes rail in the switches.
[[nodiscard]] Traffic traffic(const Fabric& fabric, const Placement& group, NodePattern pattern, double other_rail = 0);

}  // namespace foreshard::sim
