// Trials of a job whose ranks draw the length of their samples for each step.
//
// Who: predict.cpp. Deterministic; does not depend on threads.
#pragma once

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"
#include "sim/predict/adapted_ranks.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/simulate.hpp"

namespace foreshard::sim {

/// Fills Prediction::trials where the request has lengths; nothing where it has none. The parameters are as of the
/// plan, whose settings have the longest length. Fails (usage) where a length has no step, or other collectives.
[[nodiscard]] Result<void> add_length_trials(const Workload& adapted, const PredictRequest& request,
                                             const MachineProfile& machine, const SimulationRequest& simulation_request,
                                             const AdaptedRanks& others, const Simulation& simulation, Prediction& p);

}  // namespace foreshard::sim
