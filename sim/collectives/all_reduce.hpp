// NCCL's other ways to all-reduce: tree, NVLink SHARP (NVLS) on one node, NVLS inside and trees between nodes.
// Formulas of NCCL 2.28.9 src/graph/tuning.cc; docs/collectives.md.
#pragma once

#include "sim/collectives/group.hpp"

namespace foreshard::sim {

/// Chain inside a node, double binary tree between nodes; the fastest protocol.
[[nodiscard]] Estimate tree(const MachineProfile& machine, const Group& group);

/// The switch adds and multicasts: of each buffer a GPU sends all once and its share of the sum once. Needs
/// `links.nvls`; across nodes the sums travel along a tree (NVLSTree).
[[nodiscard]] Estimate nvls(const MachineProfile& machine, const Group& group);

/// The fastest of ring, tree and, where the machine has it, NVLS.
[[nodiscard]] Estimate all_reduce(const MachineProfile& machine, const Group& group, bool registered);

}  // namespace foreshard::sim
