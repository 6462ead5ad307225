// Work that the wanted settings have and the workload has no times of: another optimizer's, and FSDP2's own copies
// where a shard group of one rank was recorded and several are wanted, or the other way round. Its kernels and the
// host's time for them, as the machine profile prices those of a plan of the model
// (core/models/fsdp_section_costs.hpp).
//
// Who: predict(), of each workload that it plans. Pure and deterministic.
#pragma once

#include <string>
#include <vector>

#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::sim {

/// What priced sections take in a step.
struct PricedSections {
  Nanoseconds kernels;
  Nanoseconds host;
  std::vector<std::string> warnings;  ///< what was priced, and why: a sentence each
};

/// Whether `workload` has times of another optimizer than that of `wanted`.
[[nodiscard]] bool exchanges_optimizer(const Workload& workload, const Settings& wanted);

/// Whether `workload` has times of a shard group of one rank, which gathers and reduces nothing and copies each
/// parameter by itself (FSDPParamGroup.wait_for_unshard and foreach_reduce, world_size 1: PyTorch 2.9 and later), and
/// `wanted` has several ranks; or the other way round.
[[nodiscard]] bool exchanges_shard_copies(const Workload& workload, const Settings& wanted);

/// Whether `wanted` has HSDP's all-reduces, whose issuing took the host no time in `workload`.
[[nodiscard]] bool adds_all_reduces(const Workload& workload, const Settings& wanted);

/// Any of these.
[[nodiscard]] bool exchanges_sections(const Workload& workload, const Settings& wanted);

/// Gives `workload` the times of what `wanted` has instead, on `machine`: of the optimizer, and of the all-gathers'
/// copies and the reduction, and issuing all-reduces; what both shard groups do in a reduction stays as it was.
/// `host_scale`: what its host times are multiplied by when they are simulated (HostScale::factor), which those of the
/// profile are not. Fails (usage) where they are not known: of an optimizer on the CPU, and where the profile has no
/// host costs of the workload's program.
[[nodiscard]] Result<PricedSections> price_sections(Workload& workload, const Settings& wanted,
                                                    const MachineProfile& machine, double host_scale);

/// Adds to the interval of `p` what pricing makes less sure: of the kernels and of the host what a plan of the model
/// has, for their share of the step.
void judge_sections(const PredictionSpec& spec, const PricedSections& priced, Prediction& p);

}  // namespace foreshard::sim
