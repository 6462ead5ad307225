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

/// Errors: usage, where the settings want a graph and not_capturable() has a reason against it.
[[nodiscard]] Result<void> check_capturable(const Workload& workload, const Settings& settings);

}  // namespace foreshard::sim
