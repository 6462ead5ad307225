// What was measured of each size of step, of a recording whose steps differ. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/workload/workload.hpp"

namespace foreshard::sim {

/// By recorded step the mean of the measured steps of its size, ms, over the whole cycles that the run's step time is
/// the mean of (Measured::steady_ms()), so that theirs over a cycle is that time. A recording does not say with which
/// size the measured steps begin: they follow the recorded cycle from the one place under which every step of more
/// tokens took longer than each of fewer. Empty where steps do not differ, sizes are not known or do not repeat
/// (steps_repeat()), and where no such place or more than one is found.
[[nodiscard]] std::vector<double> measured_by_step(const Workload& workload);

/// measured_by_step() of the steps of a size; none: of none, or not known.
[[nodiscard]] std::optional<double> measured_of(const Workload& workload, std::uint32_t batch, std::uint32_t seq);

}  // namespace foreshard::sim
