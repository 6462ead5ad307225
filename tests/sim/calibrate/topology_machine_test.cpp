// NCCL's topologies on machine profiles: what they change, and what they say of it. The three nodes are those of the
// golden cases.
#include "sim/calibrate/topology_machine.hpp"

#include <fstream>
#include <sstream>

#include "sim/calibrate/topology.hpp"
#include "sim/collectives/bound.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/collectives/network_rate.hpp"
#include "tests/catch.hpp"
#include "tests/sim/calibrate/samples.hpp"

namespace foreshard::sim {
namespace {

std::string text_of(const std::string& name) {
  std::ifstream file("tests/golden/inputs/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  REQUIRE_FALSE(text.str().empty());
  return text.str();
}

NodeTopology node_of(const std::string& text) {
  const auto read = read_topology(text, "node.xml");
  INFO((read ? "" : read.error().text()));
  REQUIRE(read);
  return *read->node;
}

TopologyOnMachine put(MachineProfile& machine, const NodeTopology& node) {
  const auto on = put_topology_on(machine, node, "node.xml");
  REQUIRE(on);
  return *on;
}

std::string replaced_all(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

using Lists = std::vector<std::vector<std::uint32_t>>;
using Texts = std::vector<std::string>;

/// GPUs and adapters as `devices` says: "g" a GPU, "n" a port, in PCIe switches of one CPU.
std::string switches(const std::vector<std::string>& devices) {
  std::string out = "<system version=\"1\"><cpu host_hash=\"0x1\">";
  int gpus = 0;
  for (const std::string& of_switch : devices) {
    out += "<pci class=\"0x060400\">";
    for (const char device : of_switch)
      out += device == 'g'
                 ? "<pci link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu sm=\"90\" rank=\"" +
                       std::to_string(gpus++) + "\" gdr=\"1\"><nvlink count=\"18\" tclass=\"0x068000\"/></gpu></pci>"
                 : "<pci link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><nic><net speed=\"400000\" "
                   "gdr=\"1\"/></nic></pci>";
    out += "</pci>";
  }
  return out + "</cpu></system>";
}

TEST_CASE("a DGX H100 is what the profile says") {
  const NodeTopology node = node_of(text_of("dgx_h100.xml"));
  CHECK(node.gpus == 8);
  CHECK(node.nvlinks == 18);
  CHECK(node.nvswitch);
  CHECK(node.nearest == Lists{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}});
  CHECK(node.nic_slot_gb_per_s == std::vector<double>(8, 48));
  MachineProfile machine = builtin_profile("h100").value();
  const MachineProfile before = machine;
  // The slot's weight, 48, is below the port's 50; what it carries, 63, is not.
  const TopologyOnMachine on = put(machine, node);
  CHECK(on.differs == Texts{});
  CHECK(on.doubts == Texts{});
  CHECK(machine.network.nic == before.network.nic);
  CHECK(machine.links.ring == before.links.ring);
  CHECK(machine.network.nics == 8);
  CHECK(machine.collectives.size() == before.collectives.size());
}

TEST_CASE("two adapters are shared by the GPUs of their CPUs, at the slower one's slot") {
  const NodeTopology node = node_of(text_of("two_adapters.xml"));
  CHECK(node.nearest == Lists{{0}, {0}, {0}, {0}, {1}, {1}, {1}, {1}});
  CHECK(node.nic_gb_per_s == std::vector<double>{25, 25});
  CHECK(node.nic_slot_gb_per_s == std::vector<double>{48, 12});
  MachineProfile machine = builtin_profile("h100").value();
  const TopologyOnMachine on = put(machine, node);
  CHECK(on.differs == Texts{"profile h100 says 8 adapters of 50 GB/s a node, node.xml has 2 of 15.75"});
  CHECK(on.doubts.size() == 1);  // NCCL may take the first for all
  CHECK(machine.network.nics == 2);
  CHECK(rail_bandwidth(machine) == Approx(15.754 * machine.network.efficiency / 4).epsilon(0.001));
  CHECK(adapter_of(machine.network, 8, 3) == 0);
  CHECK(adapter_of(machine.network, 8, 4) == 1);
}

TEST_CASE("GPUs without NVLink send over their slots, and the plan knows what that rests on") {
  const NodeTopology node = node_of(text_of("pcie_box.xml"));
  CHECK(node.nvlinks == 0);
  CHECK(node.pcie_gb_per_s == 24);
  CHECK(node.nearest == Lists{{0}, {0}, {0}, {0}});
  MachineProfile machine = builtin_profile("h100").value();
  const TopologyOnMachine on = put(machine, node);
  CHECK(machine.links.ring == Approx(24));
  CHECK(machine.links.push < 26);
  CHECK(machine.links.gpus == 4);
  CHECK_FALSE(machine.links.nvls);
  CHECK(machine.links.hop.simple == 5.7);
  CHECK(machine.rates.pcie == Approx(31.5e9).epsilon(0.01));
  CHECK_FALSE(machine.network.pxn);  // sends to other rails cannot go over NVLink first
  CHECK(rail_bandwidth(machine) == Approx(12.5 * machine.network.efficiency / 4));
  REQUIRE(on.differs.size() == 5);  // links, host copies, GPUs, adapters
  CHECK(on.differs[4].find("GPUDirect RDMA") != std::string::npos);
  REQUIRE(on.doubts.size() == 1);
  CHECK(on.doubts[0].starts_with("collectives over PCIe"));
  const CollectivePrice price =
      ModelledCollectives(machine).price({CollectiveKind::all_gather, Transport::nccl, kGiB, 4, 4});
  CHECK(holding(machine, {CollectiveKind::all_gather, Transport::nccl, kGiB, 4, 4}).now == Bound::pcie);
  CHECK(bus_bytes(CollectiveKind::all_gather, kGiB, 4) / price.time.us() / 1e3 < 24);
  CHECK(price.caveat.find("not measured") != std::string::npos);
}

TEST_CASE("bandwidths go with the number of NVLinks, and tables that were measured with another go") {
  const NodeTopology node = node_of(replaced(kTopology, "count=\"10\"", "count=\"10\""));
  NodeTopology fewer = node;
  fewer.nvlinks = 12;
  fewer.nvlink_gb_per_s = 12 * 20.6;
  MachineProfile machine = builtin_profile("h200").value();
  const MachineProfile before = machine;
  const TopologyOnMachine on = put(machine, fewer);
  CHECK(machine.links.ring == Approx(before.links.ring * 2 / 3));
  CHECK(machine.contention.ring.link_bandwidth == Approx(before.contention.ring.link_bandwidth * 2 / 3));
  CHECK(machine.collectives.empty());
  REQUIRE_FALSE(on.differs.empty());
  CHECK(on.differs[0] == "profile h200 says 18 NVLinks a GPU (370.8 GB/s), node.xml has 12 (247.2 GB/s)");
  // A profile that was fitted below NCCL's number has as many links.
  machine = before;
  machine.links.ring = 361;
  CHECK(put(machine, node).differs.front().find("NVLinks") == std::string::npos);
  CHECK(machine.links.ring == 361);
  fewer.nvswitch = false;
  CHECK(put(machine, fewer).doubts.size() == 1);
}

TEST_CASE("each GPU keeps to the adapter behind its own switch, and equally near ones are dealt in turn") {
  CHECK(node_of(switches({"gn", "gn"})).nearest == Lists{{0}, {1}});
  CHECK(node_of(switches({"g", "ggnn"})).nearest == Lists{{0, 1}, {0, 1}, {0, 1}});
  MachineProfile machine = builtin_profile("h100").value();
  CHECK(put(machine, node_of(switches({"ggnn"}))).differs.size() == 2);  // GPUs, adapters
  CHECK(machine.network.adapter_of_gpu == std::vector<std::uint32_t>{0, 1});
  CHECK(rail_bandwidth(machine) == Approx(50 * machine.network.efficiency));
  // Three GPUs on one, one on the other: the three are waited for.
  machine = builtin_profile("h100").value();
  const TopologyOnMachine uneven = put(machine, node_of(switches({"gggn", "gn"})));
  CHECK(rail_bandwidth(machine) == Approx(50 * machine.network.efficiency / 3));
  CHECK(uneven.differs.back() == "of node.xml's 2 adapters one is nearest to 3 of 4 GPUs: all wait for those");
  // An adapter that no GPU is nearest to carries nothing of theirs, and is not counted.
  machine = builtin_profile("h100").value();
  const TopologyOnMachine spare = put(machine, node_of(switches({"n", "gn", "gn"})));
  CHECK(spare.differs.back() == "1 of node.xml's 3 adapters is nearest to no GPU: NCCL keeps a GPU to its nearest");
  CHECK(machine.network.nics == 2);
  CHECK(machine.network.adapter_of_gpu == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("a GPU with several adapters of its own has all of them, up to what its slot carries") {
  CHECK(node_of(switches({"gnn", "gnn"})).nearest == Lists{{0, 1}, {2, 3}});
  MachineProfile machine = builtin_profile("h100").value();
  const std::string efa = replaced_all(switches({"gnnnn", "gnnnn"}), "speed=\"400000\"", "speed=\"100000\"");
  const TopologyOnMachine on = put(machine, node_of(efa));
  CHECK(on.differs == Texts{"profile h100 says 8 GPUs a node, node.xml has 2",
                            "profile h100 says 8 adapters of 50 GB/s a node, node.xml has 8 of 12.5"});
  CHECK(on.doubts == Texts{});
  CHECK(machine.network.nics == 8);
  CHECK(machine.network.adapter_of_gpu == std::vector<std::uint32_t>{0, 6});  // 1 of 4, its bits mirrored
  CHECK(rail_bandwidth(machine) == Approx(50 * machine.network.efficiency));
  // Two of 50 GB/s are more than the GPU's slot carries, 63.
  machine = builtin_profile("h100").value();
  const TopologyOnMachine fast = put(machine, node_of(switches({"gnn", "gnn"})));
  CHECK(machine.network.nics == 4);
  CHECK(rail_bandwidth(machine) == Approx(63.015 * machine.network.efficiency).epsilon(0.001));
  CHECK(fast.differs.back() == "node.xml's GPUs have 100 GB/s of adapters, and slots that carry 63.02: no more counts");
  // The GPU with one is waited for.
  machine = builtin_profile("h100").value();
  const TopologyOnMachine unlike = put(machine, node_of(switches({"gn", "gnn"})));
  CHECK(machine.network.nics == 3);
  CHECK(rail_bandwidth(machine) == Approx(50 * machine.network.efficiency));
  CHECK(unlike.differs.back() == "node.xml's GPUs have 1 to 2 adapters: all wait for those with the least");
}

TEST_CASE("GPUs are numbered by rank, whatever the order of the file") {
  const std::string text = text_of("two_adapters.xml");
  const std::size_t first = text.find("  <cpu"), second = text.find("  <cpu", first + 1), end = text.find("</system>");
  const std::string swapped =
      text.substr(0, first) + text.substr(second, end - second) + text.substr(first, second - first) + text.substr(end);
  const NodeTopology node = node_of(swapped);
  CHECK(node.nic_slot_gb_per_s == std::vector<double>{12, 48});
  CHECK(node.nearest == Lists{{1}, {1}, {1}, {1}, {0}, {0}, {0}, {0}});
  CHECK(node_of(replaced_all(swapped, " rank=", " of=")).nearest == node.nearest);  // by dev
  MachineProfile machine = builtin_profile("h100").value();
  put(machine, node);
  CHECK(adapter_of(machine.network, 8, 0) == 1);
  CHECK(adapter_of(machine.network, 8, 7) == 0);
}

TEST_CASE("adapters of unlike speed are a doubt, since NCCL compares bandwidth before nearness") {
  MachineProfile machine = builtin_profile("h100").value();
  const std::string alike = switches({"gn", "gn"});
  CHECK(put(machine, node_of(alike)).doubts == Texts{});
  machine = builtin_profile("h100").value();
  CHECK(put(machine, node_of(replaced(alike, "speed=\"400000\"", "speed=\"200000\""))).doubts ==
        Texts{"node.xml's adapters are unlike (25 and 48 GB/s, by NCCL's weights): a GPU is taken to keep to the "
              "nearest, where NCCL may take a faster one that is further away"});
  // A slower one that is nearest to none is no candidate.
  machine = builtin_profile("h100").value();
  CHECK(put(machine, node_of(replaced(switches({"n", "gn", "gn"}), "speed=\"400000\"", "speed=\"25000\""))).doubts ==
        Texts{});
}

TEST_CASE("without an adapter in the file a GPU has no more of the profile's network than before") {
  MachineProfile machine = builtin_profile("h100").value();
  const double before = rail_bandwidth(machine);
  put(machine, node_of(switches({"gg"})));
  CHECK(machine.links.gpus == 2);
  CHECK(rail_bandwidth(machine) == Approx(before));
}

TEST_CASE("the ports of one adapter share its slot") {
  const std::string two_ports =
      replaced(switches({"gn", "gn"}), "<nic><net speed=\"400000\" gdr=\"1\"/></nic>",
               "<nic><net speed=\"200000\" gdr=\"1\"/><net speed=\"200000\" gdr=\"1\"/></nic>");
  CHECK(node_of(two_ports).nic_slot_gb_per_s == std::vector<double>{24, 24, 48});
}

TEST_CASE("GPUs of another architecture than the profile's are refused") {
  MachineProfile machine = builtin_profile("a100").value();
  const auto on = put_topology_on(machine, node_of(text_of("dgx_h100.xml")), "node.xml");
  REQUIRE_FALSE(on);
  CHECK(on.error().kind == ErrorKind::mismatch);
  CHECK(on.error().what == "has GPUs of sm_90, profile a100 is of sm_80");
  CHECK(on.error().where == "node.xml");
}

TEST_CASE("GPUs without NVLink whose slots are not said are refused") {
  NodeTopology node = node_of(text_of("pcie_box.xml"));
  node.pcie_gb_per_s = 0;
  MachineProfile machine = *builtin_profile("h100");
  const auto refused = put_topology_on(machine, node, "box.xml");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("no NVLink") != std::string::npos);
  CHECK(refused.error().where == "box.xml");
}

TEST_CASE("a file of more devices than a node has is refused") {
  std::string devices(300, 'n');
  const auto read = read_topology(switches({"g" + devices}), "node.xml");
  REQUIRE_FALSE(read);
  CHECK(read.error().what.find("more than 256") != std::string::npos);
}

}  // namespace
}  // namespace foreshard::sim
