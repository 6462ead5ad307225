// Other traffic on a job's links: what is read, what it leaves, and what cannot be.
#include "sim/network/background_load.hpp"

#include "sim/network/fabric.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

Network leaves_of(std::uint32_t nodes) {
  Network network;
  network.nics = 8;
  network.nic = 50;
  network.efficiency = 0.8;
  network.leaf_nodes = nodes;
  network.oversubscription = 2;
  return network;
}

}  // namespace

TEST_CASE("a load is a share, or of adapters a rate") {
  const Network network = leaves_of(4);
  const auto load = [&](const char* text) {
    INFO(text);
    const auto parsed = parse_background_load(text, network);
    REQUIRE(parsed);
    return *parsed;
  };
  CHECK(load("adapters=10GB/s") == BackgroundLoad{0.25, 0});
  CHECK(load("adapters=80Gb/s,uplinks=50%") == BackgroundLoad{0.25, 0.5});
  CHECK(load("all=12.5%") == BackgroundLoad{0.125, 0.125});
  CHECK(words(load("adapters=25%,uplinks=50%")) ==
        "other traffic takes 25 % of each adapter and 50 % of the links between switches");
  for (const char* wrong : {"", "adapters", "adapters=", "adapters=0%", "adapters=100%", "adapters=-1%",
                            "adapters=nan%", "adapters=40GB/s", "adapters=5", "adapters=5x%", "uplinks=5GB/s",
                            "nvlink=5%", "all=5%,all=5%", "all=5%,uplinks=5%", "adapters=5%,", ",adapters=5%"}) {
    INFO(wrong);
    const auto parsed = parse_background_load(wrong, network);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().kind == ErrorKind::usage);
    CHECK(parsed.error().hint.find("--background-load adapters=5GB/s") != std::string::npos);
  }
}

TEST_CASE("every link has so much less") {
  Network network = leaves_of(4);
  network.slow_adapters = {{1, 0, 2}};
  network.background = {0.25, 0.5};
  const Fabric fabric(network, 8, 8);
  CHECK(fabric.links()[fabric.adapter_out(0)].capacity == 0.75);
  CHECK(fabric.links()[fabric.adapter_in(1)].capacity == 0.25);
  CHECK(fabric.links()[fabric.leaf_uplink(1)].capacity == 1);
  CHECK(fabric.links()[fabric.leaf_uplink(1) + 1].capacity == 1);
  network.leaf_nodes = 0;
  network.group_nodes = 4;
  const Fabric dragonfly(network, 8, 8);
  CHECK(dragonfly.links()[dragonfly.above(0)[0][0]].capacity == 1);
}

TEST_CASE("a load of links that the job does not use, or of all that a slow adapter carries, is refused") {
  const auto refusal = [](const Network& network, std::uint32_t nodes, const BackgroundLoad& load) {
    const auto checked = check_background_load({network, 8, 8, nodes}, load, network.slow_adapters);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().kind == ErrorKind::usage);
    return checked.error().what;
  };
  Network network = leaves_of(0);
  CHECK(check_background_load({network, 8, 8, 1}, {}, {}));
  CHECK(check_background_load({network, 8, 8, 2}, {0.5, 0}, {}));
  CHECK(refusal(network, 1, {0.5, 0}).find("on one node") != std::string::npos);
  CHECK(refusal(network, 2, {0, 0.5}).find("blocks nowhere") != std::string::npos);
  network.slow_adapters = {{1, 3, 4}};
  CHECK(check_background_load({network, 8, 8, 2}, {0.2, 0}, network.slow_adapters));
  CHECK(refusal(network, 2, {0.25, 0}).find("adapter 1.3 carries 25 %") != std::string::npos);
}

}  // namespace foreshard::sim
