// Who waits for whom: the GPU time of several ranks of one recording, and the rank that the others wait for.
//
// A collective moves no data before its last rank has begun it. Where a rank's compute stream is idle until a
// collective ends, the time until the last rank began it is waiting for that rank, or for those that it had waited for
// itself (first_cause.hpp); the rest is exposed communication.
//
// Not all of a late rank's cost is waiting: while its collectives have begun on the others only, these compute beside
// them, on fewer SMs. So a rank is late as well where the critical path over the ranks (rank_path.hpp) goes through it.
// That may be nearly all of it, the others' kernels taking as long as its own: of a plan, which knows the step without
// what its ranks differ in, the ranks that make it longer (planned_slower_ranks()) are late without more.
//
// A rank of a plan may stand for others that nothing tells apart from it (rank_members.hpp): means and medians count
// each of these.
//
// Who: cli's explain, the page. Pure: a Run with `rank_ops` in, plain data out; deterministic.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/run/run.hpp"
#include "core/straggler/kernel_kinds.hpp"
#include "core/straggler/rank_members.hpp"

namespace foreshard {

/// One rank's GPU, a step on average. compute + waiting + communication + idle = step.
struct RankTime {
  std::uint32_t rank = 0;
  std::uint32_t stands_for = 1;  ///< ranks that its times are of, itself among them
  Nanoseconds step;              ///< on the compute stream, from the end of the step before to its end
  Nanoseconds compute;           ///< an op runs on the compute stream
  Nanoseconds waiting;           ///< idle, behind a collective that another rank had not begun
  Nanoseconds communication;     ///< idle, behind a collective that all recorded ranks had begun
  Nanoseconds idle;              ///< idle otherwise: behind the host, mostly
  Nanoseconds delay;             ///< of the other ranks' waiting, what was for this one: their mean
};

/// One phase of the late rank beside the others, a step on average.
struct PhaseDelay {
  std::string phase;  ///< "forward", …; empty: between phases
  Nanoseconds compute;
  Nanoseconds compute_of_others;  ///< their median
  Nanoseconds idle;
  Nanoseconds idle_of_others;           ///< their median
  Nanoseconds communication;            ///< idle behind collectives that all had begun
  Nanoseconds communication_of_others;  ///< their median
  Nanoseconds delay;  ///< the others' mean wait for this rank in collectives that were issued in this phase
};

/// A kernel that takes longer on the late rank, in its worst phase, a step on average.
struct KernelExcess {
  std::string name;
  Nanoseconds time;
  Nanoseconds time_of_others;  ///< their median
  double calls = 0;
  double calls_of_others = 0;  ///< their median
};

struct LateRank {
  std::uint32_t rank = 0;
  bool by_path = false;  ///< others wait for it for less than kLateShareOfStep, but the critical path is its
  Nanoseconds path;      ///< of the critical path over the ranks, what goes through it; a step on average
  std::string phase;     ///< in which its compute, idle time and communication are furthest above the others'
  bool host = false;     ///< there its GPU is idle for longer than others', rather than computes for longer
  /// It has more work than other ranks (rank_shapes.hpp), and those with as much as it wait no longer than healthy ones
  /// do: they are as late.
  bool more_work = false;
  bool collectives = false;        ///< there it waits for longer behind collectives of its own groups than for either
  std::vector<PhaseDelay> phases;  ///< in the order of the step, those that count
  /// Where not `host` and not `collectives`: most excess first, at most three; without those that it launches more or
  /// less often than the others, where `own` has these. None of a rank with another batch or length than all others.
  std::vector<KernelExcess> kernels;
  std::optional<OwnKernels> own;  ///< likewise: what fit_ranks() says of it
};

struct Stragglers {
  std::uint32_t world = 0;      ///< ranks of the job; more than `ranks`: the late one may be among those not recorded
  std::uint32_t steps = 0;      ///< that were looked at
  std::vector<RankTime> ranks;  ///< by rank
  std::uint32_t counted = 0;    ///< ranks that these stand for, up to `world`
  Nanoseconds waiting;          ///< mean over those ranks' `waiting`
  std::optional<LateRank> late;
  /// Ranks that nothing tells apart, each of which would be late if it were alone, and of a plan others that are waited
  /// for as each of them (kAsEachOf); none: there are none, or `late` is.
  std::vector<RankRun> equally_late;
  std::vector<RankShape> shapes;  ///< rank_shapes.hpp: of a recording whose ranks were given unlike work; else empty
  /// Of a recording: a rank that would be `late`, behind its host, though it has less work than others. A profiler is
  /// on in the recorded steps, and its time on the host is hidden behind the least GPU work there: it may be late under
  /// it alone, and `late` is none.
  std::optional<std::uint32_t> under_profiler;
  double measured_ms = 0;  ///< then: a step without the profiler; 0: not known
  bool planned = false;    ///< of a plan: ranks that are not shown are like one that is
};

/// A rank is late where the others wait for it at least this part of the step, and at least half of all their waiting
/// is for it. Under a profiler four H200s of one host (PyTorch 2.11, Llama of 16 layers) wait for the slowest host for
/// 1.2 % of a step where nothing is wrong. It is also late where at least half of the critical path goes through it,
/// and its own compute and idle time is above the others' median by kLateShareOfStep, and by more than it waits for
/// collectives that all have begun (else these set the pace). Kernels of healthy ranks are within 0.8 % of one another
/// (rank_fit.hpp).
inline constexpr double kLateShareOfStep = 0.02;
inline constexpr double kLateShareOfWaiting = 0.5;

/// Of a group of equal ranks and one beside it, whose delays differ by no more: no rank of them is more to blame.
inline constexpr double kAsEachOf = 0.1;

/// None where the run holds not two ranks, or no whole step of theirs (compared_steps.hpp).
[[nodiscard]] std::optional<Stragglers> find_stragglers(const Run& run);
/// Of one step alone, as beside a report of that step.
[[nodiscard]] std::optional<Stragglers> find_stragglers(const Run& run, std::int32_t step);
/// Of a plan whose answer is not in the run yet: its groups of equal ranks, the steps whose mean its step time is, and
/// the ranks that make it longer.
[[nodiscard]] std::optional<Stragglers> find_stragglers(const Run& run, const std::vector<RankMembers>& groups,
                                                        const std::set<std::int32_t>& steps,
                                                        const std::vector<RankRun>& slower);

}  // namespace foreshard
