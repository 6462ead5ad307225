#include "sim/collectives/group.hpp"

namespace foreshard::sim {

double network_per_gpu(const MachineProfile& machine, const Group& group) {
  const Network& network = machine.network;
  const double of_node = network.nics * network.nic * network.efficiency;
  // NCCL keeps a GPU to its nearest adapter: fewer GPUs than adapters do not share the rest.
  const double one = std::min(of_node / machine.links.gpus, network.nic * network.efficiency);
  // Neither NCCL's ring nor its trees know the switches: with more nodes than a leaf holds, taken as if every step
  // left its leaf.
  const bool leaves = network.leaf_nodes > 0 && group.nodes > network.leaf_nodes;
  return leaves ? one / network.oversubscription : one;
}

}  // namespace foreshard::sim
