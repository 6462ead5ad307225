// What all ranks' measurements say together. Pure.
#pragma once

#include <vector>

#include "gpu/cuda/execution.hpp"

namespace foreshard::gpu {

/// Milliseconds of a step as the slowest rank had it, the median of its steps: a step ends when the last rank's does.
[[nodiscard]] double slowest_step_ms(const std::vector<RankMeasurement>& ranks);

/// The mean loss over the ranks, by step; empty where the workload does not compute.
[[nodiscard]] std::vector<double> mean_losses(const std::vector<RankMeasurement>& ranks);

}  // namespace foreshard::gpu
