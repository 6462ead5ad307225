// Another optimizer than the recorded one: its kernels and the host's time for them, as the machine profile prices
// those of a plan of the model (core/models/fsdp_section_costs.hpp).
//
// Who: predict(), of each workload that it plans. Pure and deterministic.
#pragma once

#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::sim {

/// What the priced optimizer takes in a step.
struct PricedOptimizer {
  Nanoseconds kernels;
  Nanoseconds host;
};

/// Whether `workload` has times of another optimizer than that of `wanted`.
[[nodiscard]] bool exchanges_optimizer(const Workload& workload, const Settings& wanted);

/// Gives `workload` the times of the optimizer of `wanted` on `machine`. `host_scale`: what its host times are
/// multiplied by when they are simulated (HostScale::factor), which those of the profile are not. Fails (usage) where
/// they are not known: of an optimizer on the CPU, and where the profile has no host costs.
[[nodiscard]] Result<PricedOptimizer> price_optimizer(Workload& workload, const Settings& wanted,
                                                      const MachineProfile& machine, double host_scale);

/// Adds to the interval of `p` what pricing makes less sure: of the kernels and of the host what a plan of the model
/// has, for their share of the step.
void judge_optimizer(const PredictionSpec& spec, const PricedOptimizer& priced, Prediction& p);

}  // namespace foreshard::sim
