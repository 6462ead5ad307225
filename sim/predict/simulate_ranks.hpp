// One simulation of a job whose ranks differ: a slower GPU, a slower host, another program on some of them.
//
// How: the program is logged once, the log played on every rank (sim/ranks/job.hpp), and then run again on the device
// of one rank, whose collectives begin and end when they did in the job. So memory, host and Run are that rank's: rank
// 0's, or, where ranks have lengths of their own, of the one that reserves most.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/predict/hang.hpp"
#include "sim/predict/rank_difference.hpp"
#include "sim/predict/simulate.hpp"
#include "sim/ranks/trials.hpp"

namespace foreshard::sim {

struct RankSimulation {
  Simulation simulation;          ///< the told rank's
  std::vector<RankGroup> groups;  ///< by lowest rank; of ranks that are all alike none
  bool job = false;               ///< every rank was played, not one for all
  /// The steady step, neither of them anchored: of a job whose ranks are all as the workload says, and of this job with
  /// hosts that cost nothing.
  Nanoseconds alike;
  Nanoseconds gpu_step;
  std::uint32_t told = 0;       ///< RankPrograms::told
  std::vector<Bytes> reserved;  ///< by workload, in order of the ranks that have it: the largest peak of its steps
  /// The first workload that runs out of memory: `simulation` is then of ranks that all run it, and there are no
  /// groups.
  std::optional<std::uint32_t> out_of_memory_workload;
  /// The job cannot end: `simulation` and the run are then of what the told rank did until it stood still.
  std::optional<Hang> hang;
  std::vector<MixedCollectives> mixed = {};  ///< of a job that ends, in which ranks skip units
};

/// As simulate(), with what `differences` says unlike the rest. Where `request.steps.record` is set, `run` gets
/// the ops of `request.kept_ranks` ranks as well (Run::rank_ops), from the step before the steady one, or cycle, on, of
/// a job that hangs from its last whole step on. Fails (usage) where a rank or an adapter is not in the job, where
/// memory depends on time (record_stream), or, before the job is played for them, where the kept ranks' ops would be
/// more than `request.max_rank_ops`.
[[nodiscard]] Result<RankSimulation> simulate_ranks(const Workload& workload, const Settings& settings,
                                                    const MachineProfile& machine, const SimulationRequest& request,
                                                    const Differences& differences, Run& run);

/// The steady step, or its cycle's mean, of the told rank in the job that `steps` is of, with these differences in
/// place of its own; not anchored. Errors as of simulate_ranks(); every rank must live.
[[nodiscard]] Result<Nanoseconds> step_with(const Workload& workload, const Settings& settings,
                                            const MachineProfile& machine, const SimulationRequest& request,
                                            const Differences& differences, const Simulation& steps);

/// Of a job whose ranks are all alike, whose groups can meet on links behind the adapters (sim/ranks/job_network.hpp):
/// what simulate_ranks() gives as the differences go to nothing. None, and `run` is left as it is, where they cannot or
/// where there is no such job (no end, out of memory, record_stream): one rank's simulation says it all.
[[nodiscard]] Result<std::optional<RankSimulation>> simulate_groups_that_meet(const Workload& workload,
                                                                              const Settings& settings,
                                                                              const MachineProfile& machine,
                                                                              const SimulationRequest& request,
                                                                              Run& run);

/// Another job as the one beside it: adapted, with its host's factor.
struct OtherJob {
  const Workload& workload;
  const Settings& settings;
  double host_scale = 1;
};
/// The steps of this job beside `other`, by how much later that one begins, in the mean of some behind the steady one
/// of `alone`, which it does where the other is not there. Empty where the two meet on no link. Fails (usage) on a
/// dragonfly, whose links are taken for one job's, where links are slow, or memory of one of the jobs follows its GPUs,
/// and where the other job's steps are so short that more than kMaxStepsBeside of them are done meanwhile.
inline constexpr std::int32_t kMaxStepsBeside = 400;
[[nodiscard]] Result<std::vector<Nanoseconds>> simulate_beside(const Workload& workload, const Settings& settings,
                                                               const MachineProfile& machine,
                                                               const SimulationRequest& request,
                                                               const Differences& differences, const Simulation& alone,
                                                               const OtherJob& other);

/// The job's trials: the time from the begin to the end of `steps`. As simulate_ranks() otherwise; a job that runs out
/// of memory, or in which a rank dies, has none (usage). `drawn`: simulate_trials()'s.
[[nodiscard]] Result<std::vector<Trial>> simulate_rank_trials(const Workload& workload, const Settings& settings,
                                                              const MachineProfile& machine,
                                                              const SimulationRequest& request,
                                                              const Differences& differences, const TrialSteps& steps,
                                                              const TrialsRequest& trials,
                                                              const StepPrograms* drawn = nullptr);

}  // namespace foreshard::sim
