// Ways between nodes, by hand.
#include "sim/network/fabric.hpp"

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

using Kind = Link::Kind;

std::vector<std::pair<Kind, std::uint32_t>> way(const Fabric& fabric, std::uint32_t a, std::uint32_t b) {
  std::vector<std::uint32_t> links;
  static_cast<void>(fabric.route(a, b, links));
  std::vector<std::pair<Kind, std::uint32_t>> out;
  for (const std::uint32_t link : links) out.push_back({fabric.links()[link].kind, fabric.links()[link].place});
  return out;
}

Network network() {
  Network out;
  out.nics = 8;
  out.nic = 50;
  out.efficiency = 1;
  return out;
}

}  // namespace

TEST_CASE("one level of switches: adapters alone") {
  const Fabric fabric(network(), 8, 4);
  CHECK(fabric.links().size() == 8);
  CHECK(way(fabric, 0, 3).empty());
}

TEST_CASE("leaves and pods: up to where both are below, and down again") {
  Network tree = network();
  tree.leaf_nodes = 2;
  tree.oversubscription = 2;
  tree.pod_nodes = 4;
  tree.pod_oversubscription = 2;
  const Fabric fabric(tree, 8, 8);
  CHECK(way(fabric, 0, 1).empty());
  CHECK(way(fabric, 0, 2) == std::vector{std::pair{Kind::up, 0U}, std::pair{Kind::down, 1U}});
  CHECK(way(fabric, 3, 4) == std::vector{std::pair{Kind::up, 1U}, std::pair{Kind::down, 2U}, std::pair{Kind::up, 0U},
                                         std::pair{Kind::down, 1U}});
  for (const Link& link : fabric.links()) CHECK(link.capacity == 1);  // a leaf: 2 / 2; a pod: 2 leaves, halved again
}

TEST_CASE("adapters are dealt to the GPUs of a node in order") {
  Network shared = network();
  shared.nics = 4;
  shared.slow_adapters = {{2, 1, 5}};
  CHECK(adapter_slowdown(shared, 8, 2, 2) == 5);
  CHECK(adapter_slowdown(shared, 8, 2, 3) == 5);
  CHECK(adapter_slowdown(shared, 8, 2, 4) == 1);
  CHECK(adapter_slowdown(shared, 8, 1, 2) == 1);
  const Fabric fabric(shared, 8, 4, 3);
  CHECK(fabric.links()[fabric.adapter_out(2)].capacity == 0.2);
  CHECK(fabric.links()[fabric.adapter_in(2)].capacity == 0.2);
  CHECK(fabric.links()[fabric.adapter_in(1)].capacity == 1);
}

TEST_CASE("to another rail a message climbs out of its leaf, and no further than it has to") {
  Network rails = network();
  rails.leaf_nodes = 2;
  rails.pod_nodes = 4;
  rails.rail_switches = true;
  const auto levels = [&](std::uint32_t nodes, std::uint32_t a, std::uint32_t b) {
    std::vector<std::uint32_t> links;
    const std::uint32_t left = Fabric(rails, 8, nodes).route_to_other_rail(a, b, links);
    CHECK(links.size() == 2 * left);
    return left;
  };
  CHECK(levels(8, 0, 1) == 1);
  CHECK(levels(8, 0, 2) == 1);
  CHECK(levels(8, 0, 4) == 2);
  // Nodes of one leaf have links above it only where messages take them.
  CHECK(levels(2, 0, 1) == 0);
  rails.pxn = false;
  CHECK(levels(2, 0, 1) == 1);
  rails.rails_linked = false;
  CHECK(levels(2, 0, 1) == 0);
}

}  // namespace foreshard::sim
