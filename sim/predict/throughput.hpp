// What a step gets done, and how fast: samples, or tokens where the settings have a sequence length. Pure.
#pragma once

#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::sim {

/// Samples, or tokens where the settings have a sequence length, of one step and GPU; 0 where the batch is not known.
/// Ranks of a tensor-parallel group work on the same samples.
[[nodiscard]] double work_of_step(const Settings& settings);

/// The same of the mean step of a plan of `workload`: where its recorded steps differ, of the last `cycle`; 0 where
/// what they get done is not known.
[[nodiscard]] double work_of_steps(const Workload& workload, const Settings& settings, std::size_t cycle);

/// The same a second, of one GPU; 0 where batch or time (milliseconds) are not known.
[[nodiscard]] double work_per_second(double work, double step_ms);
[[nodiscard]] double work_per_second(const Settings& settings, double step_ms);

}  // namespace foreshard::sim
