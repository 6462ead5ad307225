// Whether forward and backward of a workload can be captured in a CUDA graph (Settings::cuda_graph).
//
// Who: predict() and `foreshard run`, before they begin; what offers a graph as a remedy. Pure.
#pragma once

#include <string>

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::sim {

/// Why they cannot; empty: nothing that the workload and its settings show is against it. `settings` without a graph
/// are asked as if they had one.
[[nodiscard]] std::string not_capturable(const Workload& workload, const Settings& settings);

/// Whether the host waits for the GPU between the begin of forward and the end of backward. A capture fails there,
/// unless the program does without while it is captured, as transformers' masks do (masking_utils.py, is_tracing); what
/// it does instead is in no eager recording. Plans leave the waits out.
[[nodiscard]] bool waits_in_passes(const Workload& workload);

/// Whether a graph is worth offering as a remedy. Of foreshard's own program it is not: its host issues fast enough not
/// to hold the GPUs up, so that a graph was slower in five of nine runs on 4 x H200, and its own collectives take a
/// form there that was not measured (docs/cuda_graphs.md, "On GPUs"). Who asks for one still gets it.
[[nodiscard]] constexpr bool offers_graph(Lowering lowering) {
  return lowering == Lowering::pytorch;
}

/// Errors: usage, where the settings want a graph and not_capturable() has a reason against it.
[[nodiscard]] Result<void> check_capturable(const Workload& workload, const Settings& settings);

}  // namespace foreshard::sim
