// How far a plan can be trusted: the interval around its step, whether it is `valid`, and the sentences that say why
// not.
//
// Who: predict(). Each function adds to the prediction: warnings in the order of the calls, `valid` and `uncertainty`
// only ever for the worse. Pure.
#pragma once

#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/simulate.hpp"

namespace foreshard::sim {

/// Makes the prediction not valid, and says why.
void estimate(std::string why, Prediction& p);

/// Half the width to be expected of the step, relative: /prediction of the profile. `p` has its host_bound.
[[nodiscard]] double step_uncertainty(const PredictionSpec& spec, const Workload& workload, const Prediction& p);

/// What the host times of a plan of `workload` rest on (Prediction::host).
[[nodiscard]] HostConfidence host_confidence(const Workload& workload);

/// Of another PyTorch version than kFsdpSchedule only some rules are followed.
void judge_version(const Settings& settings, Prediction& p);

/// The workload's own estimates, kernels that the machine has not measured, and whose host times these are.
void judge_workload(const Workload& workload, const Workload& adapted, const MachineProfile& machine, Prediction& p);

/// Recorded steps that differ: of which steps the times are the mean, and what is not known of theirs.
void judge_steps(const Workload& workload, Prediction& p);

/// Prices that were not read off measurements, and sections that no capture shows.
void judge_prices(const Workload& adapted, const Simulation& simulation, Prediction& p);

/// What of the machine profile the plan does not rest on a measurement of. `derived`: prices of collectives were not
/// read off measured ones.
void judge_machine(const Workload& adapted, const MachineProfile& machine, const Settings& settings, bool derived,
                   Prediction& p);

/// A recording of another machine (Prediction::recorded_on): what carries over and what does not.
void judge_elsewhere(const MachineProfile& machine, Prediction& p);

}  // namespace foreshard::sim
