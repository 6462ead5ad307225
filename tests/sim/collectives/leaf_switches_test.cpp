// Which traffic leaves a leaf switch, by hand-counted fabrics, and what that costs.
#include "sim/collectives/leaf_switches.hpp"

#include "tests/sim/collectives/machine.hpp"

namespace foreshard::sim {
namespace {

Network leaves_of(std::uint32_t nodes, double oversubscription) {
  Network network;
  network.leaf_nodes = nodes;
  network.oversubscription = oversubscription;
  return network;
}

/// One rank a node.
Group group_on(double nodes, double stride, double all_nodes) {
  Group group;
  group.ranks = group.nodes = nodes;
  group.per_node = 1;
  group.node_stride = stride;
  group.all_nodes = all_nodes;
  return group;
}

constexpr std::array kPatterns{NodePattern::ring, NodePattern::tree, NodePattern::all_to_all};

MachineProfile blocking(std::uint32_t leaf_nodes, double oversubscription, double level_latency = 0) {
  MachineProfile profile = bare_h200();
  profile.network.leaf_nodes = leaf_nodes;
  profile.network.oversubscription = oversubscription;
  profile.network.level_latency = level_latency;
  return profile;
}

double us(const MachineProfile& machine, CollectiveKind kind, std::uint32_t ranks, std::uint32_t ranks_per_node = 8,
          std::uint32_t node_stride = 1, std::uint32_t all_nodes = 0) {
  CollectiveRequest request{kind, Transport::nccl, kGiB, ranks, ranks_per_node};
  request.node_stride = node_stride;
  request.all_nodes = all_nodes;
  return ModelledCollectives(machine).price(request).time.us();
}

}  // namespace

TEST_CASE("nothing leaves its leaf on one level, in one leaf or on one node") {
  for (NodePattern pattern : kPatterns) {
    for (const Group& group : {group_on(4, 1, 4), group_on(2, 2, 4), group_on(1, 1, 64)}) {
      CHECK(leaf_traffic(leaves_of(4, 4), group, pattern).hops == 0);
      CHECK(leaf_traffic(leaves_of(4, 4), group, pattern).slowdown == 1);
    }
    CHECK(leaf_traffic(leaves_of(0, 4), group_on(64, 1, 64), pattern).slowdown == 1);
  }
}

TEST_CASE("a ring of consecutive nodes leaves each leaf once, whatever its length") {
  for (double nodes : {5, 8, 13, 64}) {
    INFO(nodes << " nodes");
    const LeafTraffic traffic = leaf_traffic(leaves_of(4, 4), group_on(nodes, 1, nodes), NodePattern::ring);
    CHECK(traffic.hops == std::ceil(nodes / 4));  // the closing one is among them
    CHECK(traffic.slowdown == 1);                 // one node's traffic over one node's uplink
  }
  CHECK(leaf_traffic(leaves_of(4, 8), group_on(8, 1, 8), NodePattern::ring).slowdown == 2);
}

TEST_CASE("rings side by side share the uplinks of their leaf") {
  // 8 nodes, 4 replicas of 2 nodes: 0 2 | 4 6 and 1 3 | 5 7 leave each leaf twice in all; the shards' rings do not.
  const LeafTraffic replicas = leaf_traffic(leaves_of(4, 4), group_on(4, 2, 8), NodePattern::ring);
  CHECK(replicas.hops == 2);
  CHECK(replicas.slowdown == 2);
  CHECK(leaf_traffic(leaves_of(4, 4), group_on(2, 1, 8), NodePattern::ring).slowdown == 1);
  // 9 nodes, shards of 3: 3 | 4 5 and 6 7 | 8 both cross into the second leaf.
  CHECK(leaf_traffic(leaves_of(4, 4), group_on(3, 1, 9), NodePattern::ring).slowdown == 2);
  CHECK(leaf_traffic(leaves_of(4, 4), group_on(3, 1, 3), NodePattern::ring).slowdown == 1);
}

TEST_CASE("where every step leaves its leaf, all of the oversubscription is paid") {
  for (double nodes : {2, 3, 4, 7, 16}) {
    INFO(nodes << " nodes");
    for (double stride : {4, 8}) {
      const Group group = group_on(nodes, stride, nodes * stride);
      const LeafTraffic ring = leaf_traffic(leaves_of(4, 4), group, NodePattern::ring);
      CHECK(ring.slowdown == 4);
      CHECK(ring.hops == nodes - 1);
      CHECK(leaf_traffic(leaves_of(4, 4), group, NodePattern::all_to_all).slowdown == Approx(4));
      // A tree's busiest node sends the bytes twice from four edges on, which two and three nodes do not have.
      const double tree = leaf_traffic(leaves_of(4, 4), group, NodePattern::tree).slowdown;
      CHECK(tree == (nodes == 2 ? 2 : nodes == 3 ? 3 : 4));
    }
  }
}

TEST_CASE("trees: edges that leave a leaf, a quarter of a node's traffic each") {
  // 8 nodes in two leaves. First tree: 0-4, 4-2, 4-6, 2-1, 2-3, 6-5, 6-7; second, mirrored: 7-3, 3-5, 3-1, 5-6, 5-4,
  // 1-2, 1-0. 0-4, 4-2, 7-3 and 3-5 cross.
  const LeafTraffic traffic = leaf_traffic(leaves_of(4, 8), group_on(8, 1, 8), NodePattern::tree);
  CHECK(traffic.hops == 2);
  CHECK(traffic.slowdown == 2);
  CHECK(leaf_traffic(leaves_of(4, 4), group_on(8, 1, 8), NodePattern::tree).slowdown == 1);
}

TEST_CASE("all-to-all: what peers beyond the leaf get") {
  const LeafTraffic traffic = leaf_traffic(leaves_of(4, 4), group_on(8, 1, 8), NodePattern::all_to_all);
  CHECK(traffic.hops == 1);
  CHECK(traffic.slowdown == Approx(4 * 4.0 / 7));  // 4 of 7 peers
}

TEST_CASE("more oversubscription is never faster") {
  for (NodePattern pattern : kPatterns)
    for (double nodes = 2; nodes <= 24; ++nodes)
      for (double stride : {1, 2, 3, 5}) {
        INFO(nodes << " nodes, stride " << stride);
        double last = 1;
        for (double oversubscription : {1.0, 1.5, 2.0, 4.0, 16.0}) {
          const auto traffic =
              leaf_traffic(leaves_of(4, oversubscription), group_on(nodes, stride, 2 * nodes * stride), pattern);
          CHECK(traffic.slowdown >= last);
          CHECK(traffic.slowdown <= std::max(1.0, oversubscription) * (1 + 1e-12));
          last = traffic.slowdown;
        }
      }
}

TEST_CASE("a blocking fabric binds groups by what leaves their leaf") {
  const MachineProfile flat = bare_h200(), four = blocking(4, 4);
  for (CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    CHECK(us(four, kind, 32) == us(flat, kind, 32));
    CHECK(us(four, kind, 40) == us(flat, kind, 40));  // the fifth node is no cliff
    CHECK(us(four, kind, 64, 8, 4, 32) == Approx(4 * us(flat, kind, 64)).epsilon(0.05));
    CHECK(us(blocking(4, 4, 3), kind, 40) > us(four, kind, 40));
  }
  CHECK(us(four, CollectiveKind::all_reduce, 4, 1, 2, 8) > 1.5 * us(flat, CollectiveKind::all_reduce, 4, 1, 2, 8));
  CHECK(us(four, CollectiveKind::all_to_all, 64) > 2 * us(flat, CollectiveKind::all_to_all, 64));
}

}  // namespace foreshard::sim
