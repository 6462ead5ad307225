// Which kernels, collectives and sizes a simulated run uses, to compare with the profile's valid range.
#pragma once

#include "core/run/run.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/valid_range.hpp"

namespace foreshard::sim {

/// `workload` as it was run under `settings`, `run` its record. Kernels and operands count where the profile prices
/// them, not where a recording timed them.
[[nodiscard]] MachineUse machine_use(const Workload& workload, const Settings& settings, const Run& run);

}  // namespace foreshard::sim
