// What a search has tried: every point once, which is best, and what need not be tried any more.
//
// Who: sim/tune. Deterministic for any number of threads.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/sweep/outcome.hpp"
#include "sim/tune/neighbours.hpp"
#include "sim/tune/tune.hpp"

namespace foreshard::sim {

/// How much is against a point's numbers, to be compared with another one's: SweepPoint::not_valid, all collectives
/// whose price was not measured being one; and what runs otherwise than asked for.
[[nodiscard]] std::size_t doubts_of(const SweepPoint& point);

class TriedPoints {
 public:
  /// References must outlive it.
  TriedPoints(WorkloadSource& source, const MachineProfile& machine, const TuneRequest& request,
              const PointRequest& shared);

  enum class Prune : std::uint8_t { no, by_bounds };
  /// Simulates those that were not yet, in their order, as far as limits allow. By neighbour: its point, where there
  /// is one. Errors: TuneRequest::share's.
  [[nodiscard]] Result<std::vector<std::optional<std::size_t>>> run(const std::vector<Neighbour>& list, Prune prune);

  [[nodiscard]] const std::vector<TunedPoint>& points() const { return points_; }
  /// The same, given away: nothing else may be asked behind it.
  [[nodiscard]] std::vector<TunedPoint> take() { return std::move(points_); }
  /// With all that a plan says of it: run() leaves out what ranks nothing (PredictRequest::step_alone). It becomes no
  /// point. From any thread.
  [[nodiscard]] TunedPoint whole(const Neighbour& one) const;
  /// Of points that ran out of memory and are not weighed yet: what each takes where there is enough of it, which it
  /// says no more of itself than how far it came. For a search that nothing fits for. Errors: TuneRequest::share's.
  [[nodiscard]] Result<void> weigh();
  /// What reserved memory peaks at: of a point that ran as it ran, of one that was weighed where there is enough of it;
  /// none: neither.
  [[nodiscard]] std::optional<Bytes> takes(std::size_t point) const;
  /// Of these the one that takes least, of equal ones the first; none: there are none.
  [[nodiscard]] std::optional<std::size_t> lightest() const;
  /// The best that fits; none does: none.
  [[nodiscard]] std::optional<std::size_t> best() const;
  /// Whether more is against its numbers than against the start's, the first point's, or it retries in each step.
  [[nodiscard]] bool is_doubted(std::size_t point) const;
  /// The first of these alone. A transport that the machine's profile was not calibrated on counts, too.
  [[nodiscard]] bool is_less_sure(std::size_t point) const;
  /// Whether it retries allocations in each step, which its time leaves out and for which it is not valid.
  [[nodiscard]] bool retries(std::size_t point) const;
  /// Whether `a` is to be preferred: fitting, without retries, not doubted, surely fitting, faster, smaller, tried
  /// earlier. Of two that do not fit: the one that takes() less, then the earlier.
  [[nodiscard]] bool is_better(std::size_t a, std::size_t b) const;
  /// What a point's reserved memory may peak at: the limit less the headroom.
  [[nodiscard]] Bytes most_reserved() const { return most_reserved_; }
  /// Whether `a` may be answered for `b`: it fits as surely, retries and is doubted alike.
  [[nodiscard]] bool is_comparable(std::size_t a, std::size_t b) const;
  /// Whether it ran, has a time, and leaves the headroom.
  [[nodiscard]] bool fits(std::size_t point) const;
  /// The best of each class, the best first.
  [[nodiscard]] std::vector<std::size_t> best_of_classes() const;
  /// Whether no point of the class of `point` can be faster than the best. A best that retries, is doubted or may not
  /// fit bounds nothing: a slower point may be preferred to it.
  [[nodiscard]] bool is_bounded(std::size_t point) const;
  [[nodiscard]] std::optional<TuneEnd> limit() const { return limit_; }
  [[nodiscard]] std::size_t pruned() const { return pruned_; }

 private:
  [[nodiscard]] bool is_pruned(const std::string& of_class) const;
  void keep(SweepPoint point, const std::string& phrase, const std::string& of_class);
  using Neighbours = std::vector<const Neighbour*>;
  using Batch = std::vector<const Settings*>;
  enum class Memory : std::uint8_t { as_asked, enough };
  /// How many of them, from the first on: fewer than all where the time is over.
  Result<std::size_t> simulate(const Neighbours& batch, const std::vector<std::string>& classes);
  /// From `from` on as many as are simulated before it is asked whether time is left; of batches that are shared all.
  Result<std::vector<SweepPoint>> simulate_some(const Batch& batch, std::size_t from, Memory memory);
  /// Those that `places` names.
  [[nodiscard]] std::vector<SweepPoint> simulated(const Batch& batch, const std::vector<std::size_t>& places,
                                                  Memory memory) const;

  WorkloadSource& source_;
  const MachineProfile& machine_;
  const TuneRequest& request_;
  PointRequest shared_;
  Bytes most_reserved_ = 0;  // that a point may peak at
  std::vector<TunedPoint> points_;
  std::map<std::string, std::size_t> index_of_;  // by text_of()
  struct Class {
    std::size_t best = 0;
    double floor_ms = 0;  // of any that ran
  };
  std::map<std::string, Class> classes_;
  std::map<std::size_t, std::optional<Bytes>> weighed_;  // points; none: it does not run there either
  std::optional<std::size_t> best_;
  std::optional<TuneEnd> limit_;
  std::size_t pruned_ = 0;
  std::size_t shared_batches_ = 0;
};

}  // namespace foreshard::sim
