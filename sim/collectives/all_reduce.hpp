// NCCL's other ways to all-reduce: tree, NVLink SHARP (NVLS) on one node, NVLS inside and trees between nodes; sums in
// the switches between nodes are switch_sums.hpp.
// Formulas of NCCL 2.28.9 src/graph/tuning.cc; docs/collectives.md.
#pragma once

#include "sim/collectives/group.hpp"
#include "sim/collectives/ring.hpp"

namespace foreshard::sim {

/// Chain inside a node, double binary tree between nodes.
[[nodiscard]] Estimate tree(const MachineProfile& machine, const Group& group, Protocol protocol);

/// The switch adds and multicasts: of each buffer a GPU sends all once and its share of the sum once. Needs
/// `links.nvls`; across nodes the sums travel along a tree (NVLSTree).
[[nodiscard]] Estimate nvls(const MachineProfile& machine, const Group& group);

/// One of NCCL's algorithms with one of its protocols; NVLS and SHARP have but Simple.
struct AllReduceWay {
  enum class Algorithm : std::uint8_t { ring = 0, tree = 1, nvls = 2, sharp = 3 };
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
};

/// The fastest of ring, tree and, where the machine has them, NVLS and SHARP; `machine` as in ring_protocol().
[[nodiscard]] AllReduceWay all_reduce_way(const MachineProfile& machine, const Group& group);

[[nodiscard]] Estimate all_reduce(const MachineProfile& machine, const Group& group, AllReduceWay way, bool registered);

}  // namespace foreshard::sim
