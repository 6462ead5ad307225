// What groups side by side reach of a fabric, by hand-counted ones, and what that costs.
#include "sim/collectives/network_rate.hpp"

#include "tests/sim/collectives/machine.hpp"

namespace foreshard::sim {
namespace {

MachineProfile leaves_of(std::uint32_t nodes, double oversubscription) {
  MachineProfile machine = bare_h200();
  machine.network.leaf_nodes = nodes;
  machine.network.oversubscription = oversubscription;
  return machine;
}

double slowdown(const MachineProfile& machine, const Group& group, NodePattern pattern) {
  return 1 / network_rate(machine, group, pattern).rate;
}

double levels(const MachineProfile& machine, const Group& group, NodePattern pattern) {
  return network_rate(machine, group, pattern).levels;
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
  for (NodePattern pattern : kNodePatterns) {
    for (const Group& group : {group_on(4, 1, 4), group_on(2, 2, 4), group_on(1, 1, 64)}) {
      CHECK(levels(leaves_of(4, 4), group, pattern) == 0);
      CHECK(slowdown(leaves_of(4, 4), group, pattern) == 1);
    }
    CHECK(slowdown(leaves_of(0, 4), group_on(64, 1, 64), pattern) == 1);
  }
}

TEST_CASE("a ring of consecutive nodes leaves each leaf once, whatever its length") {
  for (double nodes : {5, 8, 13, 64}) {
    INFO(nodes << " nodes");
    const NetworkRate reached = network_rate(leaves_of(4, 4), group_on(nodes, 1, nodes), NodePattern::ring);
    CHECK(reached.levels == std::ceil(nodes / 4));  // the closing one is among them
    CHECK(reached.rate == 1);                       // one node's traffic over one node's uplink
  }
  CHECK(slowdown(leaves_of(4, 8), group_on(8, 1, 8), NodePattern::ring) == Approx(2));
}

TEST_CASE("switches that add send one sum up, however many nodes are below them") {
  for (double nodes : {5, 8, 13, 64}) {
    INFO(nodes << " nodes");
    const NetworkRate reached = network_rate(leaves_of(4, 4), group_on(nodes, 1, nodes), NodePattern::aggregation);
    CHECK(reached.levels == 1);
    CHECK(reached.rate == 1);  // one node's traffic over one node's uplink
  }
  CHECK(slowdown(leaves_of(4, 8), group_on(8, 1, 8), NodePattern::aggregation) == Approx(2));
  CHECK(levels(leaves_of(4, 8), group_on(4, 1, 8), NodePattern::aggregation) == 0);
  // Of 4 replicas of 2 nodes each, all sums of a leaf go up its one node's worth of uplinks.
  CHECK(slowdown(leaves_of(4, 4), group_on(2, 4, 8), NodePattern::aggregation) == Approx(4));
}

TEST_CASE("an all-reduce is added in the switches where that is faster") {
  MachineProfile machine = bare_h200();
  machine.links.nvls = true;
  const auto price = [&](CollectiveKind kind, Bytes bytes, std::uint32_t ranks, std::uint32_t a_node) {
    return ModelledCollectives(machine).price({kind, Transport::nccl, bytes, ranks, a_node});
  };
  const auto all_reduce = [&](Bytes bytes, std::uint32_t ranks, std::uint32_t a_node) {
    return price(CollectiveKind::all_reduce, bytes, ranks, a_node);
  };
  const CollectivePrice ring = all_reduce(kGiB, 64, 8);
  const CollectivePrice replicas = all_reduce(kGiB, 8, 1);
  const CollectivePrice gather = price(CollectiveKind::all_gather, kGiB, 64, 8);
  const CollectivePrice alone = all_reduce(kGiB, 8, 8);
  machine.network.sharp = true;
  SECTION("each GPU's adapter sends its part once") {
    const CollectivePrice sums = all_reduce(kGiB, 64, 8);
    CHECK(sums.path == "NCCL NVLS and SHARP, 16 channels");
    CHECK(sums.time < ring.time);
    CHECK(sums.network_bytes == kGiB / 8);
    CHECK(sums.pattern == NodePattern::aggregation);
    CHECK_FALSE(sums.caveat.empty());  // no measurement says so
    // Without NVLS the parts cross NVLink twice, as a ring's do: nothing is won but steps.
    machine.links.nvls = false;
    CHECK(all_reduce(kGiB, 64, 8).path.find("ring") != std::string::npos);
    CHECK(all_reduce(kMiB, 1024, 8).path.find("CollNetDirect and SHARP") != std::string::npos);
  }
  SECTION("a group of one GPU a node is bound by its adapter") {
    const CollectivePrice sums = all_reduce(kGiB, 8, 1);
    CHECK(sums.network_bytes == kGiB);
    CHECK(sums.time < replicas.time);
    const double gb_s =
        machine.network.nics * machine.network.nic * machine.network.sharp_efficiency / machine.links.gpus;
    CHECK(sums.time.us() > kGiB / gb_s / 1e3);
    CHECK(sums.time.us() < 1.05 * kGiB / gb_s / 1e3);
  }
  SECTION("nothing else changes") {
    CHECK(price(CollectiveKind::all_gather, kGiB, 64, 8).time == gather.time);
    CHECK(all_reduce(kGiB, 8, 8).time == alone.time);
  }
  SECTION("it is no slower with more nodes but for their latency") {
    CHECK(all_reduce(kGiB, 1024, 8).time.us() < 1.01 * all_reduce(kGiB, 16, 8).time.us());
  }
}

TEST_CASE("rings side by side share the uplinks of their leaf") {
  // 8 nodes, 4 replicas of 2 nodes: 0 2 | 4 6 and 1 3 | 5 7 leave each leaf twice in all; the shards' rings do not.
  const NetworkRate replicas = network_rate(leaves_of(4, 4), group_on(4, 2, 8), NodePattern::ring);
  CHECK(replicas.levels == 2);
  CHECK(replicas.rate == Approx(0.5));
  CHECK(slowdown(leaves_of(4, 4), group_on(2, 1, 8), NodePattern::ring) == 1);
  // 9 nodes, shards of 3: 3 | 4 5 and 6 7 | 8 both cross into the second leaf.
  CHECK(slowdown(leaves_of(4, 4), group_on(3, 1, 9), NodePattern::ring) == Approx(2));
  CHECK(slowdown(leaves_of(4, 4), group_on(3, 1, 3), NodePattern::ring) == 1);
}

TEST_CASE("where every step leaves its leaf, all of the oversubscription is paid") {
  for (double nodes : {2, 3, 4, 7, 16}) {
    INFO(nodes << " nodes");
    for (double stride : {4, 8}) {
      const Group group = group_on(nodes, stride, nodes * stride);
      const NetworkRate ring = network_rate(leaves_of(4, 4), group, NodePattern::ring);
      CHECK(ring.rate == Approx(0.25));
      CHECK(ring.levels == nodes - 1);
      CHECK(slowdown(leaves_of(4, 4), group, NodePattern::all_to_all) == Approx(4));
      // A tree's busiest node sends the bytes twice from four edges on, which two and three nodes do not have.
      const double tree = slowdown(leaves_of(4, 4), group, NodePattern::tree);
      CHECK(tree == Approx(nodes == 2 ? 2 : nodes == 3 ? 3 : 4));
    }
  }
}

TEST_CASE("trees: edges that leave a leaf, a quarter of a node's traffic each") {
  // 8 nodes in two leaves. First tree: 0-4, 4-2, 4-6, 2-1, 2-3, 6-5, 6-7; second, mirrored: 7-3, 3-5, 3-1, 5-6, 5-4,
  // 1-2, 1-0. 0-4, 4-2, 7-3 and 3-5 cross.
  const NetworkRate reached = network_rate(leaves_of(4, 8), group_on(8, 1, 8), NodePattern::tree);
  CHECK(reached.levels == 2);
  CHECK(reached.rate == Approx(0.5));
  CHECK(slowdown(leaves_of(4, 4), group_on(8, 1, 8), NodePattern::tree) == 1);
}

TEST_CASE("all-to-all: what peers beyond the leaf get") {
  const NetworkRate reached = network_rate(leaves_of(4, 4), group_on(8, 1, 8), NodePattern::all_to_all);
  CHECK(reached.levels == 1);
  CHECK(1 / reached.rate == Approx(4 * 4.0 / 7));  // 4 of 7 peers
}

TEST_CASE("more oversubscription is never faster") {
  for (NodePattern pattern : kNodePatterns)
    for (double nodes = 2; nodes <= 24; ++nodes)
      for (double stride : {1, 2, 3, 5}) {
        INFO(nodes << " nodes, stride " << stride);
        double last = 1;
        for (double oversubscription : {1.0, 1.5, 2.0, 4.0, 16.0}) {
          const double now =
              slowdown(leaves_of(4, oversubscription), group_on(nodes, stride, 2 * nodes * stride), pattern);
          CHECK(now >= last * (1 - 1e-12));
          CHECK(now <= oversubscription * (1 + 1e-12));
          last = now;
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

TEST_CASE("pods: what leaves one pays for both levels") {
  MachineProfile machine = leaves_of(2, 1);
  machine.network.pod_nodes = 4;
  machine.network.pod_oversubscription = 4;
  const Group far = group_on(2, 4, 8);  // four groups, each of two nodes in two pods
  CHECK(slowdown(machine, far, NodePattern::ring) == Approx(4));
  CHECK(levels(machine, far, NodePattern::ring) == 2);
  const Group near = group_on(2, 2, 8);
  CHECK(slowdown(machine, near, NodePattern::ring) == 1);
  CHECK(levels(machine, near, NodePattern::ring) == 1);
}

TEST_CASE("dragonfly: a ring has one link from group to group, an all-to-all has them all") {
  MachineProfile machine = bare_h200();
  machine.network.group_nodes = 4;
  const Group all = group_on(16, 1, 16);
  CHECK(slowdown(machine, all, NodePattern::ring) == 1);  // one node's traffic, 4/3 of a node's on each link
  CHECK(levels(machine, all, NodePattern::ring) == 4);
  CHECK(slowdown(machine, all, NodePattern::all_to_all) == 1);                   // 4 x 4 / 15 of a node's on each link
  CHECK(slowdown(machine, group_on(4, 4, 16), NodePattern::ring) == Approx(3));  // 4 nodes' traffic
  machine.network.oversubscription = 2;
  CHECK(slowdown(machine, group_on(4, 4, 16), NodePattern::ring) == Approx(6));
}

TEST_CASE("a slow adapter holds up the groups that have it, and no others") {
  MachineProfile machine = bare_h200();
  machine.network.slow_adapters = {{1, 3, 4}};  // of node 1, that of GPU 3
  Group group = group_on(4, 1, 4);              // HSDP: one rank a node
  group.rank_stride = 8;
  CHECK(network_rate(machine, group, NodePattern::ring).rate == Approx(0.25));  // the slowest of all
  group.first_rank = 3;
  CHECK(network_rate(machine, group, NodePattern::ring).rate == Approx(0.25));
  group.first_rank = 2;
  CHECK(network_rate(machine, group, NodePattern::ring).rate == 1);
  machine.network.slow_adapters = {{1, 0, 8}};  // a run of four GPUs a node: ranks 4 to 7 are on node 1
  group = group_on(2, 2, 4);
  group.rank_stride = 8;
  group.node_ranks = 4;
  group.first_rank = 4;
  CHECK(network_rate(machine, group, NodePattern::ring).rate == Approx(0.125));
  for (const std::uint32_t rank : {0U, 5U}) {
    group.first_rank = rank;
    CHECK(network_rate(machine, group, NodePattern::ring).rate == 1);
  }
  machine.network.slow_adapters = {{1, 3, 4}};
  group = group_on(2, 1, 4);  // full shards on two nodes: nodes 0 and 1, 2 and 3
  group.ranks = 16;
  group.per_node = 8;
  group.first_rank = 0;
  CHECK(network_rate(machine, group, NodePattern::ring).rate == Approx(0.25));
  group.first_rank = 16;
  CHECK(network_rate(machine, group, NodePattern::ring).rate == 1);
}

}  // namespace foreshard::sim
