// How far a plan can be trusted: the interval around its step, whether it is `valid`, and the sentences that say why
// not.
//
// Who: predict(). Each function adds to the prediction: warnings and what the interval rests on in the order of the
// calls, `valid` only ever for the worse. Pure.
#pragma once

#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/simulate.hpp"

namespace foreshard::sim {

/// Makes the prediction not valid, and says why.
void estimate(std::string why, Prediction& p);

/// How much faster or slower the host of the planned process may be, as a logarithm, and why. `p` has its host and its
/// host_scale.
struct HostRange {
  Basis basis = Basis::recorded_host;
  double range = 0;
};
[[nodiscard]] HostRange host_range(const PredictionSpec& spec, const Workload& workload, const Prediction& p);

/// What a step rests on that is planned on a machine that was measured: its kernels, and its host by what that moves.
void judge_basis(const PredictionSpec& spec, const Workload& workload, const Settings& settings, const HostRange& host,
                 const HostBound& bound, Prediction& p);

/// What the host times of a plan of `workload` rest on (Prediction::host).
[[nodiscard]] HostConfidence host_confidence(const Workload& workload);

/// Of a PyTorch version before kFsdpSchedule only some rules are followed; of a later one some may be unsettled.
void judge_version(const Workload& workload, const Settings& settings, Prediction& p);

/// The workload's own estimates, kernels that the machine has not measured, and whose host times these are.
void judge_workload(const Workload& workload, const Workload& adapted, const MachineProfile& machine, Prediction& p);

/// Recorded steps that differ: of which steps the times are the mean, and what is not known of theirs.
void judge_steps(const Workload& workload, Prediction& p);

/// Prices that were not read off measurements, and sections that no capture shows.
void judge_prices(const Workload& adapted, const Simulation& simulation, Prediction& p);

/// What of the machine profile the plan does not rest on a measurement of. `derived`: prices of collectives were not
/// read off measured ones. `recorded`: the workload before it was adapted.
void judge_machine(const Workload& recorded, const Workload& adapted, const MachineProfile& machine,
                   const Settings& settings, bool derived, Prediction& p);

/// What retries take of the step (Prediction::retries_ms).
void judge_retries(const PredictionSpec& spec, Prediction& p);

/// A recording of another machine (Prediction::recorded_on): what carries over and what does not.
void judge_elsewhere(const MachineProfile& machine, Prediction& p);

}  // namespace foreshard::sim
