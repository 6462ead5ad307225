// The parts of fit_machine(): each adds the constants that its measurements determine.
//
// Used by fit_machine.cpp alone. A part works on `machine`, the base as far as it has been changed by the parts before.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <tuple>

#include "sim/calibrate/fit_machine.hpp"

namespace foreshard::sim {

/// All inputs, joined.
struct Samples {
  struct Time {
    double us = 0;
    std::string path;  ///< of the file
  };
  /// Kind, transport, ranks, ranks a node, whether results are wider, dtype, bytes → times.
  using Key = std::tuple<CollectiveKind, Transport, std::uint32_t, std::uint32_t, bool, DType, Bytes>;
  std::map<Key, std::vector<Time>> collectives;
  std::vector<ContentionSample> contention;
  std::vector<RateSample> rates;
  std::vector<KernelSample> kernels;
  std::vector<NodeTopology> nodes;
  std::vector<CaptureSample> captures;
  std::string gpu;
};

/// Joins and checks: times of one collective that differ by more than half, different GPUs.
[[nodiscard]] Result<Samples> join(std::span<const Measurements> inputs);

/// The tables' JSON for /collectives; fills `machine.collectives`.
[[nodiscard]] nlohmann::json fit_tables(const Samples& samples, const std::string& source, MachineProfile& machine);
/// Of the tables with this source against `machine`, without each point in turn, and by the mechanisms alone.
[[nodiscard]] std::vector<Residual> table_residuals(const MachineProfile& machine, const std::string& source);

/// The section /compute's "kernels" and "shapes", each where there are samples of it; a base without "compute" gets
/// none.
[[nodiscard]] nlohmann::json fit_kernels(const Samples& samples, const std::string& source, MachineProfile& machine,
                                         MachineFit& out);

/// Adds to `out.constants` and changes `machine` alike. Contradictions are errors.
[[nodiscard]] Result<void> fit_node(const Samples& samples, MachineProfile& machine, MachineFit& out);
void fit_links(const Samples& samples, MachineProfile& machine, MachineFit& out);
void fit_contention(const Samples& samples, MachineProfile& machine, MachineFit& out);
void fit_rates(const Samples& samples, MachineProfile& machine, MachineFit& out);

}  // namespace foreshard::sim
