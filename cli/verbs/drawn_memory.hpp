// What the allocator comes to reserve where each step's samples have another length.
#pragma once

#include "cli/options/planning.hpp"
#include "cli/terminal/console.hpp"
#include "core/base/error.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/predict/trial_times.hpp"

namespace foreshard::cli {

/// The process that a forecast of `planned` runs its steps in; `workload`: it at the planned settings. Errors: of the
/// allocator's configuration.
[[nodiscard]] Result<sim::ForecastProcess> forecast_process(const Planned& planned, const Workload& workload);

/// As forecast has it: some processes of the planned model, each of which draws its lengths by `seed` and its number.
/// Errors: as run_forecast's.
[[nodiscard]] Result<sim::DrawnMemory> drawn_memory(const Planned& planned, const sim::Lengths& lengths,
                                                    std::uint64_t seed, Console& console);

}  // namespace foreshard::cli
