#include "sim/calibrate/topology.hpp"

#include "tests/catch.hpp"
#include "tests/sim/calibrate/samples.hpp"

namespace foreshard::sim {
namespace {

Error topology_error(const std::string& text) {
  const auto read = read_measurements(text, "topo.xml");
  REQUIRE_FALSE(read);
  CHECK(read.error().kind == ErrorKind::input);
  return read.error();
}

TEST_CASE("a topology gives GPUs, their links, their slot and the NICs") {
  const auto read = read_measurements(kTopology, "topo.xml");
  REQUIRE(read);
  REQUIRE(read->node);
  CHECK(read->node->gpus == 2);
  CHECK(read->node->sm == 90);
  CHECK(read->node->nvlinks == 18);
  CHECK(read->node->nvswitch);
  CHECK(read->node->nvlink_gb_per_s == Approx(370.8));
  CHECK(read->node->pcie_gb_per_s == 48);  // 16 lanes × 240 / 80
  CHECK(read->node->nic_gb_per_s == std::vector<double>{50});
  CHECK(read->node->gdr);
  CHECK(read->notes.empty());
}

TEST_CASE("what NCCL leaves open is filled in or noted") {
  const auto slow = read_measurements(replaced(kTopology, "speed=\"400000\"", "speed=\"0\""), "topo.xml");
  CHECK(slow->node->nic_gb_per_s == std::vector<double>{1.25});
  REQUIRE(slow->notes.size() == 1);
  CHECK(slow->notes[0].text.find("10 Gb/s") != std::string::npos);
  const auto unused = read_measurements(replaced(kTopology, "rank=\"1\"", "rank=\"-1\""), "topo.xml");
  CHECK(unused->node->gpus == 1);
  REQUIRE(unused->notes.size() == 2);
  CHECK(unused->notes[1].text.starts_with("one GPU a node"));
  CHECK_FALSE(read_measurements(replaced(kTopology, "gdr=\"1\"", "gdr=\"0\""), "topo.xml")->node->gdr);
}

TEST_CASE("wrong topologies are refused with their line") {
  CHECK(topology_error(replaced(kTopology, "sm=\"90\" rank=\"1\"", "sm=\"80\" rank=\"1\"")).where ==
        "topo.xml line 16 <gpu>");
  CHECK(topology_error(replaced(kTopology, "count=\"10\"", "count=\"-10\"")).where == "topo.xml line 6 <nvlink>");
  CHECK(topology_error(replaced(kTopology, "speed=\"400000\"", "speed=\"fast\"")).where == "topo.xml line 12 <net>");
  CHECK(topology_error(replaced(kTopology, "count=\"18\"", "count=\"12\"")).what.find("first GPU") !=
        std::string::npos);
  CHECK(topology_error(replaced(kTopology, "rank=\"1\"", "rank=\"0\"")).what == "rank=\"0\" is another GPU's too");
  CHECK(topology_error("<graphs version=\"1\"></graphs>").what == "has no <system>");
  CHECK(topology_error("<system version=\"1\"></system>").what == "names no GPU");
  CHECK(topology_error("<html><body>404</body></html>").what == "has no <system>");
  const std::string whole(kTopology);
  CHECK(topology_error(whole.substr(0, whole.size() / 2)).what.find("not valid XML") != std::string::npos);
  for (std::size_t length = 1; length + 12 < whole.size(); length += 3)
    CHECK_FALSE(read_measurements(whole.substr(0, length), "topo.xml"));
}

TEST_CASE("deep and repeated XML ends in an error") {
  std::string deep = "<system>";
  for (int i = 0; i < 20000; ++i) deep += "<pci>";
  CHECK_FALSE(topology_error(deep).what.empty());
  for (int i = 0; i < 20000; ++i) deep += "</pci>";
  CHECK(topology_error(deep + "</system>").what == "is nested too deeply");
  CHECK_FALSE(
      topology_error("<!DOCTYPE x [<!ENTITY a SYSTEM \"file:///etc/passwd\">]><system>&a;</system>").what.empty());
}

}  // namespace
}  // namespace foreshard::sim
