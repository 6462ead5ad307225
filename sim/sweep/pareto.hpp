// The Pareto front of a sweep (time and memory), and the points whose times the prediction cannot tell apart from the
// best's.
//
// Pure and deterministic; equal points keep the order of their index.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard {

/// What a point costs. Points that do not run are not given.
struct PointCost {
  std::size_t index = 0;  ///< of the point in its sweep
  double step_ms = 0;     ///< for one token where batches differ: see `work`
  Bytes bytes = 0;        ///< peak reserved
  double difference = 0;  ///< relative: how well its ratio to another point's time is known
  double work = 1;        ///< tokens (or samples) of a step: times are compared a unit of work
  [[nodiscard]] double time() const { return step_ms / work; }
};

/// Indices (PointCost::index) of the points for which no other one is at least as fast and as small and better in one,
/// the fastest first. Of equal ones the first counts; of equally fast ones the smallest.
[[nodiscard]] std::vector<std::size_t> pareto(std::span<const PointCost> points);

/// Other points whose time cannot be told from the best one's, by time: their ratio is within the larger of both
/// `difference`s.
[[nodiscard]] std::vector<std::size_t> ties(std::span<const PointCost> points, std::size_t best);

/// Of `best` and its `ties` the one to name, since their times do not tell: the smallest; of equally small ones the
/// fastest, then the first.
[[nodiscard]] std::size_t smallest(std::span<const PointCost> points, std::size_t best,
                                   std::span<const std::size_t> ties);

}  // namespace foreshard
