// The search for the fastest settings within memory, over what no cross product of ranges reaches.
//
// First what is looked at anyway: the start, where it does not fit what takes least memory, the uniform settings that
// `sweep` tries (usual_ranges()), uniform prefetch of every depth, some units kept beside embedding and head of their
// own. Then from the best so far its neighbours (neighbours.hpp), in whole batches: the best point whose neighbours
// were not tried is next, one of each class (move_family.hpp) only, until kPatience of them in a row brought nothing.
// While nothing fits, what runs out of memory is simulated again where there is enough of it, and the best is what
// takes least. A class whose kernels, links or host alone take longer than the best step is left out. Memory prunes
// nothing: with fragmentation a deeper prefetch may fit where a shallower one does not. Steps within kEqualSteps are
// equal: of them the smaller is taken, and what brings less is taken back at the end, so that the answer is short; the
// fastest stands beside it.
//
// A point against whose numbers more speaks than against the start's (SweepPoint::not_valid), or of which more runs
// otherwise than asked for, comes after all others, and behind those what retries allocations in each step.
//
// Who: cli's tune; tests/bench. Points are those of `sweep`, as `plan` predicts them. Deterministic for any number of
// threads and of tasks that share its batches: a batch is made before it is run, and of its points the best by time,
// memory, order is taken. A limit of time alone makes the result depend on the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/settings/settings.hpp"
#include "sim/machine/profile.hpp"
#include "sim/sweep/sweep.hpp"
#include "sim/tune/batch.hpp"
#include "sim/tune/exposed.hpp"
#include "sim/tune/move_family.hpp"

namespace foreshard::sim {

/// Steps that differ by less of them are equal: a change must bring more, and of equal ones the smaller is the answer.
constexpr double kEqualSteps = 0.0025;

struct TuneProgress {
  std::size_t tried = 0;
  double best_ms = 0;  ///< 0: nothing fits yet
};

struct TuneRequest {
  Settings start;
  std::optional<Bytes> memory_limit;  ///< what the caching allocator may take; none: the machine's
  Bytes headroom = 0;                 ///< that the peak of reserved memory leaves of it
  MoveFamilies allowed = MoveFamilies::usual();
  std::optional<std::size_t> points;  ///< so many are simulated at most; none: no limit
  unsigned threads = 1;
  /// Whether no time is left; asked after every few points, but not where batches are shared; empty: never.
  std::function<bool()> is_over = {};
  /// Splits each batch with other tasks; empty: all is simulated here. Its error is the search's.
  ShareBatch share = {};
  /// Of one of these tasks: nothing is planned whole, and no point is named but in `points`.
  bool points_alone = false;
  std::function<void(const TuneProgress&)> on_progress = {};
};

/// Why a search ended.
enum class TuneEnd : std::uint8_t {
  nothing_helps = 0,  ///< no neighbour of the best is better
  points = 1,
  time = 2,
};

struct TunedPoint {
  SweepPoint point;
  std::string phrase;  ///< what was changed last, in words: how the search came to it
  /// All that is predicted of it, of the points that a result names; none: a point of TuneResult::points, of which the
  /// search looks at the step, its memory and what is against them alone (PredictRequest::step_alone), or a refusal.
  std::optional<Prediction> plan = {};
};

/// What one of the best's changes brings, the others as they are.
struct ChangeWorth {
  std::string setting;        ///< as plan's options
  std::optional<double> ms;   ///< how much longer the step is without it; none: it does not fit then, or is less sure
  std::int64_t reserved = 0;  ///< how much larger the peak of reserved memory is without it, where there is `ms`
};

struct TuneResult {
  TunedPoint start;
  std::optional<TunedPoint> best;  ///< none: nothing fits
  /// The fastest of those that may be answered, where the best is not it: the best is as fast (kEqualSteps), and
  /// smaller or simpler.
  std::optional<TunedPoint> fastest;
  /// Where nothing fits: what was tried that takes least memory (TriedPoints::takes()), with every op of its run, where
  /// there is enough of it; of a search that time ended, of what it weighed, at least the start.
  std::optional<PlannedPoint> least;
  /// The next best: each slower than the one before and smaller by what is worth it; three at most.
  std::vector<TunedPoint> next;
  std::optional<TunedPoint> uniform;  ///< the best of what `sweep` tries
  std::optional<TunedPoint> greedy;   ///< the best uniform depth
  Waits waits;                        ///< of the best
  std::vector<ChangeWorth> changes;   ///< of the best, a family each
  std::size_t changes_not_tried = 0;  ///< a limit ended the search first
  /// The smallest StepFloor::ms of all points that ran: no order of anything that was tried is faster; 0: not known.
  double bound_ms = 0;
  TuneEnd end = TuneEnd::nothing_helps;
  // Points that were simulated, and what became of them.
  std::size_t tried = 0;
  std::size_t out_of_memory = 0;
  std::size_t doubted = 0;  ///< ran, and more is against their numbers than against the start's; the best is not one
  std::size_t pruned = 0;   ///< left out by a bound
  std::vector<ReasonCount> refused;
  std::optional<TunedPoint> fastest_doubted;  ///< of these, where it is faster than the best
  /// What retries allocations in each step and is doubted for nothing else, where without retries the best takes over
  /// 10 % longer. Its time leaves the retries out.
  std::optional<TunedPoint> fastest_retrying;
  Bytes most_reserved = 0;  ///< what reserved memory may peak at: the limit less the headroom
  std::vector<Unit> units;  ///< of the best, as its settings group them
  /// The best captured in a CUDA graph, where that was not allowed and the best has none; refused where it cannot be.
  std::optional<TunedPoint> with_cuda_graph;
  std::vector<TunedPoint> points;    ///< all that were tried, in their order: `start` is the first
  std::vector<std::size_t> front;    ///< of `points`, for which none that may be answered is as fast and as small
  std::vector<std::size_t> no_part;  ///< of `points`: they fit, and are less sure than the start or retry in each step
};

/// Fails where the start cannot be predicted, or the workload has no times (usage).
[[nodiscard]] Result<TuneResult> tune(WorkloadSource& source, const MachineProfile& machine,
                                      const TuneRequest& request);

}  // namespace foreshard::sim
