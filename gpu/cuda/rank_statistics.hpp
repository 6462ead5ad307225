// What all ranks' measurements say together. Pure.
#pragma once

#include <vector>

#include "gpu/cuda/execution.hpp"

namespace foreshard::gpu {

/// Milliseconds of a step as the slowest rank had it, the median of its timed steps, warm-up left out: a step ends when
/// the last rank's does.
[[nodiscard]] double slowest_step_ms(const std::vector<RankMeasurement>& ranks);

/// Milliseconds from a step's first call to its last, the median of the rank's steps.
[[nodiscard]] double host_issue_ms(const RankMeasurement& rank);

/// The mean loss over the ranks, by step; empty where the workload does not compute.
[[nodiscard]] std::vector<double> mean_losses(const std::vector<RankMeasurement>& ranks);

}  // namespace foreshard::gpu
