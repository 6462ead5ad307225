#include "sim/collectives/leaf_switches.hpp"

#include <algorithm>
#include <vector>

namespace foreshard::sim {
namespace {

/// A group's place on the fabric: its members' nodes are `first`, `first` + `stride`, …
struct Placed {
  std::uint32_t first = 0;
  std::uint32_t stride = 1;
  std::uint32_t count = 1;
  std::uint32_t leaf_nodes = 1;

  [[nodiscard]] std::uint32_t leaf(std::uint32_t member) const { return (first + member * stride) / leaf_nodes; }
  [[nodiscard]] bool crosses(std::uint32_t a, std::uint32_t b) const { return leaf(a) != leaf(b); }
};

/// Parent of a member in the first tree (ncclGetBtree): its lowest bit moves one up, or goes where there is no such
/// member. The root, 0, is its own.
std::uint32_t parent(std::uint32_t member, std::uint32_t count) {
  if (member == 0) return 0;
  const std::uint32_t low = member & (~member + 1);
  const std::uint32_t rest = member ^ low;
  const std::uint32_t up = rest | (low << 1);
  return up < count ? up : rest;
}

/// In the second tree, which is the first one mirrored, or shifted by one where the count is odd.
std::uint32_t second_parent(std::uint32_t member, std::uint32_t count) {
  if (count % 2 == 0) return count - 1 - parent(count - 1 - member, count);
  return (parent((member + count - 1) % count, count) + 1) % count;
}

/// What leaves each leaf, in bandwidths of a node; adds one group's share. Returns the group's hops.
double add_ring(const Placed& group, std::vector<double>& out) {
  double hops = 0;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    if (!group.crosses(i, (i + 1) % group.count)) continue;
    out[group.leaf(i)] += 1;
    ++hops;
  }
  return std::min<double>(hops, group.count - 1);
}

double add_tree(const Placed& group, std::uint32_t (*parent_of)(std::uint32_t, std::uint32_t),
                std::vector<double>& out) {
  constexpr double kEdge = 0.25;  // half of the bytes in each direction, where a node sends the bytes twice
  double most = 0;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    const std::uint32_t up = parent_of(i, group.count);
    if (group.crosses(i, up)) {
      out[group.leaf(i)] += kEdge;
      out[group.leaf(up)] += kEdge;
    }
    double hops = 0;
    for (std::uint32_t at = i, next = up; at != next; at = next, next = parent_of(at, group.count))
      hops += group.crosses(at, next) ? 1 : 0;
    most = std::max(most, hops);
  }
  return most;
}

double add_all_to_all(const Placed& group, std::vector<double>& out) {
  bool leaves = false;
  for (std::uint32_t i = 0; i < group.count;) {
    std::uint32_t end = i + 1;
    while (end < group.count && !group.crosses(i, end)) ++end;
    const double here = end - i, beyond = group.count - here;
    out[group.leaf(i)] += here * beyond / (group.count - 1);
    leaves |= beyond > 0;
    i = end;
  }
  return leaves ? 1 : 0;
}

double add(const Placed& group, NodePattern pattern, std::vector<double>& out) {
  switch (pattern) {
    case NodePattern::tree:
      return std::max(add_tree(group, parent, out), add_tree(group, second_parent, out));
    case NodePattern::all_to_all:
      return add_all_to_all(group, out);
    case NodePattern::ring:
      break;
  }
  return add_ring(group, out);
}

}  // namespace

LeafTraffic leaf_traffic(const Network& network, const Group& group, NodePattern pattern) {
  LeafTraffic traffic;
  if (network.leaf_nodes == 0 || group.one_node()) return traffic;
  const auto count = static_cast<std::uint32_t>(group.nodes);
  const auto stride = static_cast<std::uint32_t>(group.node_stride);
  const std::uint32_t block = count * stride;  // nodes of the groups that interleave
  const std::uint32_t nodes = std::max(static_cast<std::uint32_t>(group.all_nodes), block);
  if (nodes <= network.leaf_nodes) return traffic;
  std::vector<double> out(nodes / network.leaf_nodes + 1);
  for (std::uint32_t begin = 0; begin + block <= nodes; begin += block)
    for (std::uint32_t first = begin; first < begin + stride; ++first)
      traffic.hops = std::max(traffic.hops, add({first, stride, count, network.leaf_nodes}, pattern, out));
  const double uplinks = network.leaf_nodes / network.oversubscription;
  traffic.slowdown = std::max(1.0, *std::max_element(out.begin(), out.end()) / uplinks);
  return traffic;
}

}  // namespace foreshard::sim
