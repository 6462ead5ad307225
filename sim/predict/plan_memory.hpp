// The memory of a plan: peaks of its last step, and how far they move with time.
//
// Who: predict(). Pure.
#pragma once

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/simulate.hpp"

namespace foreshard::sim {

/// Fills `p`'s peaks, bytes, from the last step of `simulation` or from the one that ran out of memory, and says what
/// makes them doubtful.
void add_memory(const Workload& adapted, const PredictRequest& request, const Simulation& simulation, Prediction& p);

/// How far peaks move with the host's speed, where freed blocks wait for the GPU: further simulations of `simulation`'s
/// request, from hosts as fast as the unprofiled one to hosts as slow as the recorded one, and
/// /prediction/host_speed_range beyond both (of a model, and where `host_priced`: host times are a profile's,
/// model_host); and one in which the other ranks begin the first collective late, as in a first step. And what a longer
/// run comes to (Prediction::settled). Fails where simulate() does.
[[nodiscard]] Result<void> add_peak_range(const Workload& adapted, const MachineProfile& machine,
                                          const PredictRequest& request, SimulationRequest simulation, bool host_priced,
                                          Prediction& p);

}  // namespace foreshard::sim
