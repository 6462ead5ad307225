// Any text gives one node's topology or an Error; and a machine of its architecture takes the topology.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.hpp"
#include "sim/calibrate/topology.hpp"
#include "sim/calibrate/topology_machine.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreshard::sim;
  const auto read = read_topology(std::string_view(reinterpret_cast<const char*>(data), size), "input");
  if (read) FORESHARD_CHECK(read->node && read->node->gpus > 0, "a topology names GPUs");
  if (read) {
    MachineProfile machine;
    machine.compute_capability = read->node->sm;
    machine.links.ring = 370.8;
    machine.network.nics = 8;
    machine.network.nic = 50;
    const bool linked = read->node->nvlinks > 0 || read->node->pcie_gb_per_s > 0 || read->node->gpus < 2;
    const auto put = put_topology_on(machine, *read->node, "input");
    FORESHARD_CHECK(put.has_value() == linked, "a topology with links fits a machine of its architecture");
    if (!put) return 0;
    const Network& network = machine.network;
    FORESHARD_CHECK(machine.links.ring > 0 && network.nics > 0 && network.nic > 0, "links carry something");
    for (const std::uint32_t adapter : network.adapter_of_gpu)
      FORESHARD_CHECK(adapter < network.nics, "a GPU keeps to an adapter that is there");
  }
  if (!read) FORESHARD_CHECK(!read.error().what.empty(), "an error says what is wrong");
  return 0;
}
