// NCCL's sends and receives, fused into one kernel (ncclDevKernel_SendRecv): an all-to-all and a batch of
// point-to-point operations. NCCL 2.28.9 src/enqueue.cc, addP2pToPlan and scheduleP2pTasksToPlan, src/graph/paths.cc,
// ncclTopoComputeP2pChannels; docs/collectives.md.
#pragma once

#include "sim/collectives/group.hpp"

namespace foreshard::sim {

/// How one message is spread over channels, of which each is one SM.
struct P2pSplit {
  bool ll = false;      ///< protocol LL; else Simple
  double channels = 1;  ///< that carry it
};

/// A message of `bytes` to a peer, or to the rank itself (`own`), in a communicator whose ranks are on one node or on
/// several. `channels` is that of the communicator's collectives.
[[nodiscard]] P2pSplit p2p_split(double channels, double bytes, double ranks, bool one_node = true, bool own = false);

/// Of an all-to-all every peer gets an n-th, and a rank's own part is copied by the same kernel; sends and receives are
/// taken as one message to one peer, which is on another node where the group spans nodes.
[[nodiscard]] Estimate point_to_point(const MachineProfile& machine, const Group& group);

}  // namespace foreshard::sim
