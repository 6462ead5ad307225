// What the hosts of a job's ranks issue: one log for each workload, and one more for each set of slow links that ranks
// of it have, since the same calls then have other prices.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/workload/workload.hpp"
#include "sim/collectives/network_rate.hpp"
#include "sim/predict/rank_difference.hpp"
#include "sim/predict/simulate.hpp"
#include "sim/ranks/host_program.hpp"
#include "sim/ranks/job.hpp"
#include "sim/ranks/logged_steps.hpp"
#include "sim/ranks/rank_traits.hpp"

namespace foreshard::sim {

/// A workload as ranks with equal links run it.
struct RankProgram {
  std::uint32_t workload = 0;     ///< of RankPrograms::workloads
  std::vector<GroupLinks> links;  ///< by communicator; empty: all links are as the machine's
  std::unique_ptr<HostProgram> log;
  double network_slowdown = 1;     ///< RankGroup's …
  double background_slowdown = 1;  ///< … both
};

struct RankPrograms {
  MachineProfile machine;                  ///< with the job's slow links
  std::vector<const Workload*> workloads;  ///< first that of ranks which have none of their own, last `rewritten`
  std::vector<std::unique_ptr<Workload>> rewritten;  ///< those of `workloads` that are no one else's
  std::vector<RankProgram> programs;
  std::vector<RankTraits> traits;  ///< by rank
  Nanoseconds alike;               ///< the steady step of a job whose ranks all run the first workload
  std::vector<Bytes> reserved;     ///< by workload: the largest peak of its steps
  /// The rank whose simulation is told: 0; where ranks have lengths of their own the lowest of those that reserve most;
  /// where a workload runs out of memory the lowest that runs it.
  std::uint32_t told = 0;
  bool own_sources = false;                    ///< some rank has a source of its own, of units that are called the same
  std::map<std::uint32_t, SkippedUnit> skips;  ///< by rank, each from a step that is planned
  /// The first workload that runs out of memory: there are no programs then.
  std::optional<std::uint32_t> out_of_memory_workload;
  /// Memory follows the GPU's progress (record_stream) where nothing differs: there are no programs then.
  bool follows_gpu = false;

  /// Whether ranks may call collectives for other units than their group: programs that are not one model's.
  [[nodiscard]] bool calls_may_differ() const { return !skips.empty() || own_sources; }
  [[nodiscard]] bool links_differ() const {
    return !machine.network.slow_adapters.empty() || !machine.links.slow_links.empty() ||
           machine.network.background.any();
  }
  [[nodiscard]] const Workload& workload_of(std::uint32_t rank) const {
    return *workloads[programs[traits[rank].program].workload];
  }
};

/// What says so where ranks differ in such a job.
[[nodiscard]] Result<void> refuse_record_stream(const Settings& settings);

/// Fails (usage) where a rank, an adapter, a step or a unit is not in the job, or where something differs and memory
/// follows the GPU's progress (record_stream); (mismatch) where the workloads have other process groups.
[[nodiscard]] Result<RankPrograms> rank_programs(const Workload& workload, const Settings& settings,
                                                 const MachineProfile& machine, const SimulationRequest& request,
                                                 const Differences& differences);

/// One workload, of whose program ranks have steps. Fails (usage) where memory follows the GPU's progress, or runs out.
[[nodiscard]] Result<StepLog> step_log(const Workload& workload, const Settings& settings,
                                       const MachineProfile& machine, const SimulationRequest& request);

/// The job that they make; `ranks` must outlive it.
[[nodiscard]] JobRequest job_of(const RankPrograms& ranks, const SimulationRequest& request, const JobFabric& fabric);

}  // namespace foreshard::sim
