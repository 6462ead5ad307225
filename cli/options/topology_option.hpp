// `--topology FILE`: the links of a node as NCCL sees them (NCCL_TOPO_DUMP_FILE), in place of what the profile says.
//
// Who: plan, sweep and collectives take it; a stored plan keeps what the file said, so that plans from its store and
// `explain` have the same machine without the file.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/console.hpp"
#include "cli/terminal/output.hpp"
#include "core/base/error.hpp"
#include "sim/calibrate/measurements.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::cli {

inline constexpr const char* kTopologyHelp =
    "the links of a node as NCCL sees them, instead of the profile's: what NCCL writes to NCCL_TOPO_DUMP_FILE "
    "(NVLinks, PCIe slots, adapters and which GPU is nearest to which); none: the profile's, also where a store has "
    "a topology";

/// What one is planned with.
struct Topology {
  std::string file;  ///< as it was given; empty: none is
  sim::NodeTopology node;
  std::vector<std::string> differs;  ///< sim::TopologyOnMachine's, once it is on a machine
  std::vector<std::string> doubts;
  [[nodiscard]] bool given() const { return !file.empty(); }
};

/// "none": none is given. Odd input is noted on the console. Errors: those of sim::read_topology().
[[nodiscard]] Result<Topology> read_topology_file(const std::string& path, Console& console);

/// The key "topology" of `--json` and of a stored plan: null where none is given.
[[nodiscard]] Json topology_json(const Topology& topology);
/// What a fingerprint counts of it: not the file's name, nor words. Empty where none is given.
[[nodiscard]] std::string topology_question(const Topology& topology);
/// What a store's key says; none given where it is null, or no topology.
[[nodiscard]] Topology stored_topology(const std::string& json);

/// Changes the machine and fills in how they differ. Errors: those of sim::put_topology_on().
[[nodiscard]] Result<void> put_on(sim::MachineProfile& machine, Topology& topology);
/// The differences as notes.
void tell(const Topology& topology, Console& console);

}  // namespace foreshard::cli
