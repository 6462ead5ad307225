// Messages between rails: over NVLink to the rail's adapter (PXN), through the switches, or not at all.
#include "sim/collectives/rails.hpp"

#include "sim/collectives/network_rate.hpp"
#include "tests/sim/collectives/machine.hpp"

namespace foreshard::sim {
namespace {

constexpr std::uint32_t kLeaf = 4;

/// A leaf switch has one adapter of each of four nodes.
MachineProfile rails(double oversubscription, bool pxn) {
  MachineProfile machine = bare_h200();
  machine.network.leaf_nodes = kLeaf;
  machine.network.oversubscription = oversubscription;
  machine.network.rail_switches = true;
  machine.network.pxn = pxn;
  return machine;
}

CollectivePrice exchange(const MachineProfile& machine, std::uint32_t nodes, std::uint32_t a_node = 8,
                         CollectiveKind kind = CollectiveKind::all_to_all) {
  return ModelledCollectives(machine).price({kind, Transport::nccl, kGiB, nodes * a_node, a_node});
}

Group group_of_nodes(std::uint32_t nodes, std::uint32_t a_node) {
  return group_of({CollectiveKind::all_to_all, Transport::nccl, kGiB, nodes * a_node, a_node});
}

}  // namespace

TEST_CASE("which share of the messages is for another rail") {
  const MachineProfile machine = bare_h200();
  const auto share = [&](std::uint32_t a_node, NodePattern pattern) {
    return other_rail_share(machine, group_of_nodes(2, a_node), pattern);
  };
  CHECK(share(8, NodePattern::all_to_all) == Approx(7.0 / 8));
  CHECK(share(2, NodePattern::all_to_all) == Approx(1.0 / 2));
  CHECK(share(1, NodePattern::all_to_all) == 0);
  CHECK(share(8, NodePattern::send) == 1);  // rank 7 to rank 8
  CHECK(share(1, NodePattern::send) == 0);
  CHECK(share(8, NodePattern::ring) == 0);
  CHECK(other_rail_share(machine, group_of_nodes(1, 8), NodePattern::all_to_all) == 0);
  // Two adapters for eight GPUs: half of the GPUs of a node keep to the receiver's.
  MachineProfile two = machine;
  two.network.nics = 2;
  CHECK(other_rail_share(two, group_of_nodes(2, 8), NodePattern::all_to_all) == Approx(1.0 / 2));
}

TEST_CASE("by PXN NVLink carries what is for other rails, and the adapters what they did") {
  const double part = static_cast<double>(kGiB) / 16;
  const CollectivePrice with = exchange(rails(4, true), 2);
  const CollectivePrice without = exchange(rails(4, false), 2);
  CHECK(static_cast<double>(with.link_bytes) == Approx((7 + 8 * 7.0 / 8) * part));
  CHECK(static_cast<double>(without.link_bytes) == Approx(7 * part));
  CHECK(with.network_bytes == without.network_bytes);
  CHECK(static_cast<double>(with.network_bytes) == Approx(8 * part));
  CHECK(with.path.ends_with("over 2 nodes, to other rails by PXN"));
  CHECK(without.path.ends_with("over 2 nodes, to other rails through the switches (no PXN)"));
  // On PCIe there is no NVLink to take.
  MachineProfile slots = rails(4, true);
  slots.links.pcie = true;
  CHECK(exchange(slots, 2).link_bytes == without.link_bytes);
}

TEST_CASE("without PXN they climb out of their leaf, be all nodes below it") {
  const auto slowdown = [](const MachineProfile& machine, std::uint32_t nodes) {
    return 1 / network_rate(machine, group_of_nodes(nodes, 8), NodePattern::all_to_all).rate;
  };
  for (const double over : {1.0, 4.0}) {
    CHECK(slowdown(rails(over, true), 2) == 1);
    CHECK(slowdown(rails(over, true), 4) == 1);
  }
  // Of each of the nodes below a leaf 7/8, over uplinks of one node's rate.
  CHECK(slowdown(rails(4, false), 2) == Approx(2 * 7.0 / 8));
  CHECK(slowdown(rails(4, false), 4) == Approx(4 * 7.0 / 8));
  CHECK(slowdown(rails(1, false), 4) == 1);
  // Two leaves: those, and of the same rail the 4 of 7 peers that lie below the other leaf.
  CHECK(slowdown(rails(4, true), 8) == Approx(4 * 4.0 / 7));
  CHECK(slowdown(rails(4, false), 8) == Approx(4 * (7.0 / 8 + 4.0 / 7 / 8)));
  CHECK(exchange(rails(4, false), 4).time.us() ==
        Approx(exchange(rails(4, true), 4).time.us() * 4 * 7 / 8).epsilon(0.01));
}

TEST_CASE("a send to the next node's first rank is for another rail") {
  const auto send = [](const MachineProfile& machine) { return exchange(machine, 2, 8, CollectiveKind::send_recv); };
  CHECK(send(rails(8, true)).link_bytes == kGiB);
  CHECK(send(rails(8, false)).link_bytes == 0);
  // Both nodes' messages over uplinks of half a node's rate.
  CHECK(send(rails(8, false)).time.us() == Approx(4 * send(rails(8, true)).time.us()).epsilon(0.01));
}

TEST_CASE("rings and all that stays on its rail do not ask") {
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::all_reduce})
    CHECK(exchange(rails(4, false), 4, 8, kind).time == exchange(rails(4, true), 4, 8, kind).time);
  CHECK(exchange(rails(4, false), 4, 1).time == exchange(rails(4, true), 4, 1).time);
}

TEST_CASE("rails that are not linked need NVLink") {
  MachineProfile machine = bare_h200();
  machine.network.rail_switches = true;
  machine.network.rails_linked = false;
  CHECK(exchange(machine, 16).caveat == exchange(bare_h200(), 16).caveat);
  CHECK(exchange(machine, 16).time == exchange(bare_h200(), 16).time);
  machine.links.pcie = true;
  CHECK(exchange(machine, 16).caveat.find("cannot go") != std::string::npos);
  CHECK(exchange(machine, 16, 8, CollectiveKind::all_gather).caveat.find("cannot go") == std::string::npos);
}

}  // namespace foreshard::sim
