#include "sim/calibrate/topology_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/calibrate/topology_adapters.hpp"

namespace foreshard::sim {
namespace {

/// Microseconds of a ring's and a tree's step over PCIe (NCCL 2.28.9 src/graph/tuning.cc, hwLat).
constexpr PerProtocol kPcieHop{1.0, 2.5, 5.7};
constexpr PerProtocol kPcieTreeHop{1.0, 1.9, 4.0};

class Putting {
 public:
  Putting(MachineProfile& machine, const NodeTopology& node, std::string_view file)
      : machine_(machine), node_(node), file_(file) {}

  Result<TopologyOnMachine> put() {
    if (node_.sm != machine_.compute_capability)
      return fail(ErrorKind::mismatch,
                  fmt::format("has GPUs of sm_{}, profile {} is of sm_{}", node_.sm, machine_.name,
                              machine_.compute_capability),
                  std::string(file_), "give the profile of these GPUs with --machine");
    // A node of one GPU says nothing of the links between GPUs.
    if (node_.gpus > 1) inside();
    host();
    if (node_.gpus != machine_.links.gpus) {
      differs(fmt::format("{} GPUs a node", machine_.links.gpus), std::to_string(node_.gpus));
      machine_.links.gpus = node_.gpus;
    }
    adapters();
    return std::move(out_);
  }

 private:
  void differs(const std::string& profile, const std::string& file) {
    out_.differs.push_back(fmt::format("profile {} says {}, {} has {}", machine_.name, profile, file_, file));
  }

  void scale_links(double factor) {
    Links& links = machine_.links;
    ContentionSpec& spec = machine_.contention;
    for (double* bandwidth :
         {&links.ring, &links.nvls_bandwidth, &links.symmetric_store, &links.symmetric_load, &links.symmetric_switch,
          &links.push, &links.pull, &machine_.rates.peer, &spec.ring.link_bandwidth, &spec.symmetric.link_bandwidth,
          &spec.copy_engine.link_bandwidth})
      *bandwidth *= factor;
    machine_.collectives.clear();
  }

  void inside() {
    if (node_.nvlinks == 0) return over_pcie();
    const double each = node_.nvlink_gb_per_s / node_.nvlinks;
    const double of_profile = std::max(1.0, std::round(machine_.links.ring / std::max(each, 1e-3)));
    if (of_profile != node_.nvlinks) {
      differs(fmt::format("{:.0f} NVLinks a GPU ({:.1f} GB/s)", of_profile, machine_.links.ring),
              fmt::format("{} ({:.1f} GB/s)", node_.nvlinks, machine_.links.ring * node_.nvlinks / of_profile));
      scale_links(node_.nvlinks / of_profile);
    }
    if (node_.nvswitch) return;
    if (machine_.links.nvls) machine_.links.nvls = false;
    out_.doubts.push_back(fmt::format(
        "{}'s NVLinks lead from GPU to GPU: they are taken to carry what as many through a switch do", file_));
  }

  void over_pcie() {
    Links& links = machine_.links;
    differs(fmt::format("NVLink of {:.1f} GB/s", links.ring),
            fmt::format("none, and PCIe slots of {:.1f} GB/s (NCCL's weight)", node_.pcie_gb_per_s));
    scale_links(std::min(1.0, node_.pcie_gb_per_s / links.ring));
    links.pcie = true;
    machine_.network.pxn = false;  // it goes over NVLink
    links.hop = kPcieHop;
    links.tree_hop = kPcieTreeHop;
    links.nvls = false;
    out_.doubts.push_back(
        "collectives over PCIe are priced with NCCL's weight and latencies of a slot that each GPU has to itself, and "
        "with the profile's channels: nothing of that was measured");
  }

  void host() {
    const double slot = node_.pcie_gb_per_s * kSlotOverWeight * 1e9;
    if (slot <= 0 || machine_.rates.pcie <= slot) return;
    differs(fmt::format("{:.1f} GB/s between GPU and host", machine_.rates.pcie / 1e9),
            fmt::format("slots that carry {:.1f}", slot / 1e9));
    machine_.rates.pcie = slot;
  }

  void adapters() {
    Network& network = machine_.network;
    NodeAdapters of_node = adapters_of(node_, file_);
    // No adapter is said: a GPU of fewer has no more of the profile's than one.
    if (of_node.used == 0) {
      network.nics = std::min(network.nics, node_.gpus);
      return;
    }
    if (of_node.used != network.nics || std::abs(of_node.nic / network.nic - 1) > kSame)
      differs(fmt::format("{} adapters of {:.4g} GB/s a node", network.nics, network.nic),
              fmt::format("{} of {:.4g}", of_node.used, of_node.nic));
    for (std::string& note : of_node.notes) out_.differs.push_back(std::move(note));
    for (std::string& doubt : of_node.doubts) out_.doubts.push_back(std::move(doubt));
    network.nics = of_node.used;
    network.nic = of_node.nic;
    network.adapter_of_gpu = std::move(of_node.of_gpu);
    if (!node_.gdr)
      out_.differs.push_back(
          fmt::format("profile {} says GPUDirect RDMA, not every GPU and adapter of {} can do it: times over nodes may "
                      "be too short",
                      machine_.name, file_));
  }

  static constexpr double kSame = 0.001;
  MachineProfile& machine_;
  const NodeTopology& node_;
  std::string_view file_;
  TopologyOnMachine out_;
};

}  // namespace

Result<TopologyOnMachine> put_topology_on(MachineProfile& machine, const NodeTopology& node, std::string_view file) {
  if (node.nvlinks == 0 && node.pcie_gb_per_s <= 0 && node.gpus > 1)
    return fail(ErrorKind::input,
                "has no NVLink and does not say what PCIe slots the GPUs have: how they reach one "
                "another is not known",
                std::string(file),
                "write it again with NCCL_TOPO_DUMP_FILE; link_speed and link_width of the GPUs' pci elements say it");
  return Putting(machine, node, file).put();
}

}  // namespace foreshard::sim
