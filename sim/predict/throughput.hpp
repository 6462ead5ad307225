// What a step gets done, and how fast: samples, or tokens where the settings have a sequence length. Pure.
#pragma once

#include <vector>

#include "core/run/step_shapes.hpp"
#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::sim {

/// Samples, or tokens where the settings have a sequence length, of one step and GPU; 0 where the batch is not known.
/// Ranks of a tensor-parallel group work on the same samples.
[[nodiscard]] double work_of_step(const Settings& settings);

/// The same in the mean of steps, or ranks, of these shapes; 0 of none.
[[nodiscard]] double work_of_shapes(const std::vector<StepShape>& shapes, Settings settings);

/// Of a recording whose ranks were given other batches or lengths each rank's (Workload::rank_shapes), where that is
/// what a plan of it has. Empty: of another recording, of a plan of another number of ranks, and where the rank whose
/// program it repeats is none of those with most tokens, which the others wait for: such a plan is of a job all of
/// whose ranks have that one's.
[[nodiscard]] std::vector<StepShape> shapes_of_job(const Workload& workload, const Settings& settings);

/// The same of the mean step of a plan of `workload`: where its recorded steps differ, of the last `cycle`; 0 where
/// what they get done is not known.
[[nodiscard]] double work_of_steps(const Workload& workload, const Settings& settings, std::size_t cycle);

/// The same a second, of one GPU; 0 where batch or time (milliseconds) are not known.
[[nodiscard]] double work_per_second(double work, double step_ms);
[[nodiscard]] double work_per_second(const Settings& settings, double step_ms);

}  // namespace foreshard::sim
