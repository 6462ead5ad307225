// A job of many ranks, each with its own host and GPU: who waits for whom.
//
// A collective moves bytes once its last rank has started it, at each rank's own pace, and ends on all of them with the
// slowest. Until then each rank's kernel holds its SMs, as NCCL's does. Ranks that nothing tells apart are simulated as
// one (rank_classes.hpp). One class alone gives what SimDevice gives, to the nanosecond.
//
// Where groups can meet on a link behind the adapters (job_network.hpp), a collective that begins or ends changes the
// rates of others from that instant on, and so does a link that flaps, once all that happens then has happened, so that
// no order within it decides. Each rank goes ahead to its next meeting once that may be the first (next_meetings.hpp);
// where something changes before, it goes back to its mark. A job with a link that flaps has no steps that repeat.
//
// How else: each rank runs until a collective has something to tell; once all its ranks are there, they run on. Where
// two communicators make every rank wait for another one, the rank whose next instant is the first goes on: nobody can
// arrive before it.
//
// Deterministic; does not depend on the order in which ranks run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/machine/profile.hpp"
#include "sim/network/flapping_link.hpp"
#include "sim/ranks/awaited.hpp"
#include "sim/ranks/rank.hpp"
#include "sim/ranks/rank_classes.hpp"

namespace foreshard::sim {

/// Where a job's groups can meet on the links behind its adapters, and what these carry when.
struct JobFabric {
  const CollectiveCost* collectives = nullptr;  ///< the prices of `programs`, at any rate; outlives the call
  std::uint32_t node_ranks = 0;                 ///< ranks of a node
  std::vector<Flap> flaps = {};                 ///< links that are not always what they are
};

struct JobRequest {
  /// What ranks run, all of them with the same communicators. Where one calls another kind or size of collective than
  /// its group in the same place among its communicator's, none of them goes on (Job::stuck). They outlive the call.
  std::vector<const HostProgram*> programs;
  std::vector<RankTraits> ranks;  ///< by rank
  /// Ranks from this one on are another job's beside this one, on nodes of its own behind this one's: they run programs
  /// with communicators of their own. Needs `last_step`, which is this job's.
  std::uint32_t own_ranks = UINT32_MAX;
  double host_scale = 1;   ///< multiplies every rank's host work; 0: hosts cost nothing
  bool fold = true;        ///< false: every rank is simulated, for tests of the folding
  bool short_ways = true;  ///< false: Engine's long way only, for tests of the short ones
  bool ahead = true;       ///< false: where groups meet on links no rank goes ahead of another, for tests of that
  std::vector<std::uint32_t> keep_meetings = {};  ///< ranks of which JobRank::meetings is wanted
  unsigned threads = 1;                           ///< ranks that can go on run at the same time; changes no result
  Jitter jitter = {};  ///< drawn for ops and host work; those for ranks are among `ranks`'s factors
  /// The job is left once every rank has come to the end of this step; none: it is played to its end.
  std::optional<std::size_t> last_step = {};
  /// What up to `last_step` is as it was a step before is not played (step_period.hpp); false: for tests of that.
  bool repeat_steps = true;
  bool tells_delays = false;  ///< JobRank::awaited is divided by what held the last rank up
  JobFabric fabric = {};      ///< without prices: no two groups are looked at together
};

/// What happened to the ranks of one class.
struct JobRank {
  std::vector<Nanoseconds> step_ends;  ///< by step, on the compute stream
  MeetingScript meetings;  ///< where it was asked for: when each of its collectives began to move, and ended
  /// How long its collectives stood and waited for ranks that came later, whatever else ran meanwhile.
  Nanoseconds waited;
  /// How long all ranks together waited for one of this class, as the last to come, by what of it held it up.
  Awaited awaited;
  /// By step: how much of that came up in it, and Engine::idle_for_ranks() until its end.
  std::vector<Awaited> awaited_in;
  std::vector<Nanoseconds> idle_for_ranks;
};

/// Where the ranks of one class stand in a job that cannot go on.
struct StuckRank {
  /// A collective that they have begun, of which others never do their part.
  struct Collective {
    CommunicatorId communicator;
    OpId op;
    Nanoseconds issued;                 ///< by their hosts
    std::uint32_t of = 0;               ///< ranks
    std::vector<std::uint32_t> absent;  ///< in the groups of the class's ranks, ascending
  };
  std::uint32_t of_class = 0;
  HostStop host = HostStop::program_end;
  std::uint32_t issued = 0;  ///< ops by its host
  std::uint32_t steps = 0;   ///< that ended on its compute stream
  std::vector<Collective> waits;
};

struct Job {
  std::vector<StridedGroups> communicators;
  RankClasses classes;
  std::vector<JobRank> ranks;  ///< by class
  /// A schedule that cannot end: every class but those that did what they live to do; empty where it ended.
  std::vector<StuckRank> stuck;
  /// From some point in this step on, all up to JobRequest::last_step is as it was a step before, and was not played;
  /// none: all was.
  std::optional<std::size_t> repeated;
  bool paced = false;      ///< groups met on links: MeetingTimes::paces say how
  bool jobs_meet = false;  ///< on some of those links groups of both jobs

  /// Of all ranks, the one that ends the step last.
  [[nodiscard]] Nanoseconds last_end(std::size_t step) const {
    Nanoseconds out;
    for (const JobRank& rank : ranks) out = std::max(out, rank.step_ends[step]);
    return out;
  }
  [[nodiscard]] const JobRank& of(std::uint32_t rank) const { return ranks[classes.of_rank[rank]]; }
};

/// Aborts where programs have other communicators than the first: whoever makes them looks (simulate_ranks.cpp).
[[nodiscard]] Job simulate_job(const MachineProfile& machine, const JobRequest& request);

}  // namespace foreshard::sim
