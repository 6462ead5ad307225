#include "sim/collectives/group.hpp"
#include "sim/collectives/leaf_switches.hpp"

namespace foreshard::sim {

double network_per_gpu(const MachineProfile& machine, const Group& group, NodePattern pattern) {
  const Network& network = machine.network;
  const double of_node = network.nics * network.nic * network.efficiency;
  // NCCL keeps a GPU to its nearest adapter: fewer GPUs than adapters do not share the rest.
  const double one = std::min(of_node / machine.links.gpus, network.nic * network.efficiency);
  return one / leaf_traffic(network, group, pattern).slowdown;
}

}  // namespace foreshard::sim
