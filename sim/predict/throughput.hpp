// What a step gets done, and how fast: samples, or tokens where the settings have a sequence length. Pure.
#pragma once

#include "core/settings/settings.hpp"

namespace foreshard::sim {

/// Samples, or tokens where the settings have a sequence length, of one step and GPU; 0 where the batch is not known.
/// Ranks of a tensor-parallel group work on the same samples.
[[nodiscard]] double work_of_step(const Settings& settings);

/// The same a second, of one GPU; 0 where batch or time (milliseconds) are not known.
[[nodiscard]] double work_per_second(const Settings& settings, double step_ms);

}  // namespace foreshard::sim
