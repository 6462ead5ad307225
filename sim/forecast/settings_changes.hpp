// Other settings than those of a training that runs out of memory, or that retries: what a plan of it would try
// (sim/sweep/candidates.hpp), and smaller batches.
//
// Who: forecast_remedies.cpp. Pure; deterministic.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/settings/settings.hpp"
#include "sim/forecast/length_programs.hpp"
#include "sim/machine/address_space.hpp"
#include "sim/sweep/candidates.hpp"

namespace foreshard::sim {

/// What a forecast at other settings runs.
struct SettingsForecast {
  std::unique_ptr<ProgramSource> programs;
  SimMemoryOptions memory;             ///< that its process finds: no recorded addresses
  std::vector<std::string> estimates;  ///< where the programs are estimates (AdaptedWorkload::warnings)
};

/// Makes it; fails where the source cannot tell. For any number of threads.
using ForecastAt = std::function<Result<SettingsForecast>(const Settings&)>;

/// The candidates of a plan that runs out of memory but for other allocator configurations, which a forecast tries by
/// itself, and more nodes, which are another job; then the batch halved, again and again.
[[nodiscard]] std::vector<Candidate> settings_changes(const Settings& base);

}  // namespace foreshard::sim
