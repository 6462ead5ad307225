// What a CUDA graph of forward and backward (torch.cuda.graph) could make of a step at most.
//
// A bound, no prediction of a graph: the host's work in both passes costs nothing, the optimizer's and what else stands
// outside of them stays. The launch of the graph, its nodes' own latencies and its memory pool are left out.
#pragma once

#include <string>

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// Why forward and backward cannot be captured; empty: nothing that the workload shows is against it.
[[nodiscard]] std::string not_capturable(const Workload& workload, const Settings& settings);

/// The steady step without the host's work in forward and backward, milliseconds. `workload` must be adapted to
/// `settings`.
[[nodiscard]] Result<double> cuda_graph_bound(const Workload& workload, const Settings& settings,
                                              const MachineProfile& machine, double host_scale);

}  // namespace foreshard::sim
