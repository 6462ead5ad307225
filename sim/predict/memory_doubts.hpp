// Why the memory of a workload is an estimate.
//
// Who: sim/forecast, cli's forecast. Pure.
#pragma once

#include <string>
#include <vector>

#include "core/workload/workload.hpp"

namespace foreshard::sim {

/// The reasons of a plan's Prediction::not_valid that are about memory: estimates of the workload and PyTorch versions
/// whose schedule is not known, one sentence each. Empty: memory is known. `workload`: as its source has it, not
/// adapted to `settings`.
[[nodiscard]] std::vector<std::string> memory_doubts(const Workload& workload, const Settings& settings);

}  // namespace foreshard::sim
