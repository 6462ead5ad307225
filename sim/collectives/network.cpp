#include "sim/collectives/group.hpp"

namespace foreshard::sim {

double network_per_gpu(const MachineProfile& machine, const Group& group) {
  const Network& network = machine.network;
  const double of_node = network.nics * network.nic * network.efficiency;
  // NCCL keeps a GPU to its nearest adapter: fewer GPUs than adapters do not share the rest.
  const double one = std::min(of_node / machine.links.gpus, network.nic * network.efficiency);
  return group.leaves_leaf(network) ? one / network.oversubscription : one;
}

}  // namespace foreshard::sim
