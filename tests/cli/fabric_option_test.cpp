// --fabric: what it says of a network.
#include "cli/options/fabric_option.hpp"

#include "tests/catch.hpp"

namespace foreshard::cli {
namespace {

sim::Network fabric(const std::string& text) {
  sim::Network network;
  network.leaf_nodes = 7;
  network.oversubscription = 9;
  network.nics = 8;
  INFO(text);
  const auto set = set_fabric(text, network);
  INFO((set ? "" : set.error().text()));
  REQUIRE(set);
  CHECK(network.nics == 8);
  return network;
}

}  // namespace

TEST_CASE("a fabric takes the place of the profile's") {
  CHECK(fabric("flat").leaf_nodes == 0);
  CHECK(fabric("flat").oversubscription == 1);
  CHECK(fabric("rail:32").leaf_nodes == 32);
  CHECK(fabric("rail:32").oversubscription == 1);
  const sim::Network tree = fabric("fat-tree:16:2,128:1.5");
  CHECK(tree.leaf_nodes == 16);
  CHECK(tree.oversubscription == 2);
  CHECK(tree.pod_nodes == 128);
  CHECK(tree.pod_oversubscription == 1.5);
  const sim::Network dragonfly = fabric("dragonfly:8:2");
  CHECK(dragonfly.leaf_nodes == 0);
  CHECK(dragonfly.group_nodes == 8);
  CHECK(dragonfly.oversubscription == 2);
}

TEST_CASE("switches add where the fabric says so") {
  sim::Network network;
  const auto unknown = set_fabric("flat+sharp", network);
  REQUIRE_FALSE(unknown);  // what such a switch carries is nowhere
  CHECK(unknown.error().hint.find("sharp_efficiency") != std::string::npos);
  network.sharp_efficiency = 0.8;
  REQUIRE(set_fabric("fat-tree:16:2+sharp", network));
  CHECK(network.sharp);
  CHECK(network.leaf_nodes == 16);
  CHECK(network.oversubscription == 2);
  REQUIRE(set_fabric("fat-tree:16:2", network));
  CHECK_FALSE(network.sharp);
  for (const char* text : {"dragonfly:8+sharp", "+sharp", "fat-tree+sharp", "flat+sharp+sharp", "flat+SHARP"})
    CHECK_FALSE(set_fabric(text, network));
}

TEST_CASE("rails are of one switch each, and linked or not") {
  CHECK(fabric("rail:32").rail_switches);
  CHECK(fabric("rail:32").rails_linked);
  CHECK(fabric("rail:32").pxn);
  CHECK_FALSE(fabric("fat-tree:4").rail_switches);
  const sim::Network only = fabric("rail-only");
  CHECK(only.rail_switches);
  CHECK_FALSE(only.rails_linked);
  CHECK(only.leaf_nodes == 0);
  CHECK_FALSE(fabric("rail:32:2+no-pxn").pxn);
  CHECK_FALSE(fabric("flat+no-pxn").pxn);
  sim::Network network;
  network.sharp_efficiency = 0.8;
  for (const char* text : {"rail:32+sharp+no-pxn", "rail:32+no-pxn+sharp"}) {
    REQUIRE(set_fabric(text, network));
    CHECK(network.sharp);
    CHECK_FALSE(network.pxn);
  }
  REQUIRE(set_fabric("flat", network));
  CHECK_FALSE(network.pxn);  // NCCL's setting, not the wiring's: as it was
  CHECK(network.rails_linked);
  for (const char* text : {"rail-only+no-pxn", "rail-only:4", "flat+no-pxn+no-pxn", "rail:4+pxn"})
    CHECK_FALSE(set_fabric(text, network));
}

TEST_CASE("a fabric that nothing of the job shares is said to change nothing") {
  const auto note = [](const char* text, std::uint32_t nodes) { return fabric_note(text, fabric(text), 8, nodes); };
  CHECK(note("fat-tree:4:2", 1).find("inside one node") != std::string::npos);
  CHECK(note("fat-tree:4:2", 4).find("all 4 nodes are below one leaf switch") != std::string::npos);
  CHECK(note("dragonfly:4:2", 4).find("in one of its groups") != std::string::npos);
  CHECK(note("fat-tree:4:2", 5).empty());
  CHECK(note("dragonfly:4:2", 5).empty());
  CHECK(note("rail:4+no-pxn", 4).empty());  // rails that change in the switches are linked above one leaf
  CHECK(note("flat", 4).empty());
  CHECK(fabric_note("", {}, 8, 4).empty());
}

TEST_CASE("what is no fabric is refused with what would be one") {
  for (const char* text :
       {"", "rail", "rail:", "rail:0", "rail:x", "rail:4:", "rail:4:0.5", "rail:4:nan", "rail:4:1e9", "rail:4,8",
        "fat-tree:4,6", "fat-tree:4,4", "fat-tree:2,4,8", "flat:2", "torus:4", "rail:4:2:1", "rail:99999999999"}) {
    sim::Network network;
    INFO("'" << text << "'");
    const auto set = set_fabric(text, network);
    REQUIRE_FALSE(set);
    CHECK(set.error().kind == ErrorKind::usage);
    CHECK(set.error().hint.find("fat-tree:16:2,128:4") != std::string::npos);
  }
}

}  // namespace foreshard::cli
