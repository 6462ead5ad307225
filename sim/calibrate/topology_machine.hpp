// A machine profile with the links of a node that NCCL described (NCCL_TOPO_DUMP_FILE), where the two differ.
//
// From the file: GPUs of a node; NVLinks of a GPU (their number against the profile's, whose bandwidths all scale with
// it); without NVLink the PCIe slot, at NCCL's weight for it and its latencies of a hop over PCIe (graph/topo.h,
// graph/tuning.cc of NCCL 2.28); adapters, their speed and slot, and which GPU is nearest to which. Everything else
// stays the profile's: its channels, the rates of single copies over healthy links, latencies, what lies behind the
// adapters. Tables of collectives were measured over the profile's links: with other links inside the node they go, and
// with them the plans' validity.
//
// Who: `--topology` of plan, sweep and collectives. Pure and deterministic.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "sim/calibrate/measurements.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

struct TopologyOnMachine {
  /// "profile h200 says 8 adapters of 50 GB/s a node, node.xml has 4 of 25"; none: they agree.
  std::vector<std::string> differs;
  std::vector<std::string> doubts;  ///< what the prices over these links rest on that nothing measured
};

/// Changes `machine`. Refused (mismatch): GPUs of another architecture than the profile's. `file`: for words.
[[nodiscard]] Result<TopologyOnMachine> put_topology_on(MachineProfile& machine, const NodeTopology& node,
                                                        std::string_view file);

}  // namespace foreshard::sim
