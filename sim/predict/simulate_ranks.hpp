// One simulation of a job whose ranks differ: a slower GPU, a slower host, another program on some of them.
//
// How: the program is logged once, the log played on every rank (sim/ranks/job.hpp), and then run again on rank 0's
// device, whose collectives begin and end when they did in the job. So memory, host and Run are rank 0's as ever.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/predict/rank_difference.hpp"
#include "sim/predict/simulate.hpp"
#include "sim/ranks/job.hpp"

namespace foreshard::sim {

struct RankSimulation {
  Simulation simulation;          ///< rank 0's
  std::vector<RankGroup> groups;  ///< by lowest rank
  /// The steady step, neither of them anchored: of a job whose ranks are all as the workload says, and of this job with
  /// hosts that cost nothing.
  Nanoseconds alike;
  Nanoseconds gpu_step;
  std::vector<Bytes> reserved;  ///< by workload, in order of the ranks that have it: the largest peak of its steps
  /// The first workload that runs out of memory: `simulation` is then of ranks that all run it, and there are no
  /// groups.
  std::optional<std::uint32_t> out_of_memory_workload;
  std::string deadlock;  ///< Job::deadlock
};

/// As simulate(), with what `differences` says unlike the rest. Where `request.steps.record` is set, `run` gets
/// the ops of one rank of each group as well (Run::rank_ops), from the step before the steady one on.
/// Fails (usage) where a rank or an adapter is not in the job, or where memory depends on time (record_stream).
[[nodiscard]] Result<RankSimulation> simulate_ranks(const Workload& workload, const Settings& settings,
                                                    const MachineProfile& machine, const SimulationRequest& request,
                                                    const Differences& differences, Run& run);

}  // namespace foreshard::sim
