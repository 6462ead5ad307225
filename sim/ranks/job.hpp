// A job of many ranks, each with its own host and GPU: who waits for whom.
//
// A collective moves bytes once its last rank has started it, at each rank's own pace, and ends on all of them with the
// slowest. Until then each rank's kernel holds its SMs, as NCCL's does. Ranks that nothing tells apart are simulated as
// one (rank_classes.hpp). One class alone gives what SimDevice gives, to the nanosecond.
//
// How: each rank runs until a collective has something to tell; once all its ranks are there, they run on. Where two
// communicators make every rank wait for another one, the rank whose next instant is the first goes on: nobody can
// arrive before it.
//
// Deterministic; does not depend on the order in which ranks run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/machine/profile.hpp"
#include "sim/ranks/rank.hpp"
#include "sim/ranks/rank_classes.hpp"

namespace foreshard::sim {

struct JobRequest {
  /// What ranks run: all of them with the same communicators, and the same collectives on each in the same order. They
  /// outlive the call.
  std::vector<const HostProgram*> programs;
  std::vector<RankTraits> ranks;                  ///< by rank
  double host_scale = 1;                          ///< multiplies every rank's host work; 0: hosts cost nothing
  bool fold = true;                               ///< false: every rank is simulated, for tests of the folding
  std::vector<std::uint32_t> keep_meetings = {};  ///< ranks of which JobRank::meetings is wanted
};

/// What happened to the ranks of one class.
struct JobRank {
  std::vector<Nanoseconds> step_ends;  ///< by step, on the compute stream
  MeetingScript meetings;  ///< where it was asked for: when each of its collectives began to move, and ended
  /// How long its collectives stood and waited for ranks that came later, whatever else ran meanwhile.
  Nanoseconds waited;
  /// How long all ranks together waited for one of this class, as the last to come; at most INT64_MAX.
  Nanoseconds awaited;
};

struct Job {
  std::vector<StridedGroups> communicators;
  RankClasses classes;
  std::vector<JobRank> ranks;  ///< by class
  /// A schedule that cannot end: who waits for whom, a line each; empty where it ended.
  std::string deadlock;

  [[nodiscard]] const JobRank& of(std::uint32_t rank) const { return ranks[classes.of_rank[rank]]; }
};

/// Aborts where programs have other communicators than the first: whoever makes them looks (simulate_ranks.cpp).
[[nodiscard]] Job simulate_job(const MachineProfile& machine, const JobRequest& request);

}  // namespace foreshard::sim
