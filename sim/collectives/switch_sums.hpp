// Collectives of several nodes whose switches add and multicast (SHARP, Network::sharp), by NCCL's CollNet: NCCL 2.28.9
// src/graph/tuning.cc, src/device/all_gather.h and reduce_scatter.h, src/transport/coll_net.cc; docs/collectives.md.
//
// Inside a node the NVSwitch adds and multicasts, where it can and has several GPUs of the group (NVLS); else the GPUs
// exchange parts over NVLink (CollNetDirect). None of it was measured.
//
// Used inside sim/collectives. Pure.
#pragma once

#include "sim/collectives/group.hpp"

namespace foreshard::sim {

/// An all-reduce: every adapter sends its part once and gets the sum once.
[[nodiscard]] Estimate sharp_all_reduce(const MachineProfile& machine, const Group& group);

/// An all-gather or a reduce-scatter is offered this way: where each GPU of the group has an adapter for itself, at
/// most 8 a node (tuning.cc: local ranks over collNetHeadsNum; enqueue.cc, NCCL_MAX_NVLS_ARITY).
[[nodiscard]] bool has_sharp_exchange(const MachineProfile& machine, const Group& group);

/// An all-gather: an adapter sends its GPU's shard once, and gets those of its rail of all other nodes. A
/// reduce-scatter is the same the other way.
[[nodiscard]] Estimate sharp_exchange(const MachineProfile& machine, const Group& group);

}  // namespace foreshard::sim
