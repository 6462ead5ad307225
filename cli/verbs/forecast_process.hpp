// The process whose steps a forecast runs: what its allocator may take, and how it is configured.
#pragma once

#include "cli/options/planning.hpp"
#include "core/base/error.hpp"
#include "sim/forecast/forecast.hpp"

namespace foreshard::cli {

/// Of `planned` at `settings`; `workload`: it at these. Errors: of the allocator's configuration.
[[nodiscard]] Result<sim::ForecastProcess> forecast_process(const Planned& planned, const Settings& settings,
                                                            const Workload& workload);

}  // namespace foreshard::cli
