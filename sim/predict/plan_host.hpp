// The host of the steps that a plan tells.
//
// Who: predict(). Pure.
#pragma once

#include "core/base/error.hpp"
#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/host_scale.hpp"
#include "sim/predict/simulate.hpp"

namespace foreshard::sim {

/// SimOptions::host_scale of a plan: the unprofiled host's. Where memory follows the host (records_streams()) the
/// geometric mean of it and that of the recorded steps, which recording memory slowed and which show its peaks; but
/// only where the GPU sets the step with that one, too: the step of a plan is a training's. Fails where simulate()
/// does.
[[nodiscard]] Result<double> host_of_plan(const Workload& adapted, const Settings& settings,
                                          const MachineProfile& machine, SimulationRequest simulation,
                                          const HostScale& scale);

}  // namespace foreshard::sim
