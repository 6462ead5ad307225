// The times of a plan: which step of the simulation they are of, the anchor, and which side sets it.
//
// Who: predict(). Pure.
#pragma once

#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/simulate.hpp"

namespace foreshard::sim {

/// What `p`'s simulated times are multiplied by: HostScale::anchor where the GPU binds the step, 1 where its host does.
/// An anchor that nothing explains (the plan is not valid then) counts for every plan of the recording: else those
/// that the host binds would look faster for it.
[[nodiscard]] double applied_anchor(const PredictionSpec& spec, const Prediction& p);

/// The step's time alone, that of `simulation`'s steady step times `anchor`, with what makes it doubtful.
void add_step(const PredictionSpec& spec, const Simulation& simulation, double anchor, Prediction& p);

/// Fills `p`'s times, in milliseconds, from the steady step of `simulation`
/// (core/run/steady_step.hpp), and says what makes them doubtful. `p` has its run and its host scale; the run is
/// stretched by the anchor, so that its own times are those of `p`.
void add_times(const PredictionSpec& spec, const Workload& workload, const Settings& settings,
               const Simulation& simulation, const HostBound& bound, Prediction& p);

}  // namespace foreshard::sim
