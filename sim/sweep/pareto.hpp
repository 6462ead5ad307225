// The Pareto front of a sweep (time and memory), and the points whose times the prediction cannot tell apart from the
// best's.
//
// A point surely stays within a limit where even the most that its peak may be does; one that only may comes after all
// that surely do.
//
// Pure and deterministic; equal points keep the order of their index.
#pragma once

#include <cstddef>
#include <optional>
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
  Bytes most_bytes = 0;   ///< that the peak may be, where it follows the host's speed; less than `bytes`: `bytes`
  [[nodiscard]] double time() const { return step_ms / work; }
  [[nodiscard]] bool within(std::optional<Bytes> limit) const { return !limit || bytes <= *limit; }
  [[nodiscard]] bool surely_within(std::optional<Bytes> limit) const {
    return within(limit) && (!limit || most_bytes <= *limit);
  }
};

/// Indices (PointCost::index) of the points for which no other one is at least as fast and as small and better in one,
/// the fastest first. Of equal ones the first counts.
[[nodiscard]] std::vector<std::size_t> pareto(std::span<const PointCost> points);

/// The fastest point that surely takes at most `limit`, else that may; of equally fast ones the smallest, then the
/// first.
[[nodiscard]] std::optional<std::size_t> fastest(std::span<const PointCost> points, std::optional<Bytes> limit);

/// Other points within `limit`, and as surely as the best one, whose time cannot be told from its own, by time: their
/// ratio is within the larger of both `difference`s.
[[nodiscard]] std::vector<std::size_t> ties(std::span<const PointCost> points, std::size_t best,
                                            std::optional<Bytes> limit);

/// Of `best` and its `ties` the one to name, since their times do not tell: the smallest; of equally small ones the
/// fastest, then the first.
[[nodiscard]] std::size_t smallest(std::span<const PointCost> points, std::size_t best,
                                   std::span<const std::size_t> ties);

}  // namespace foreshard
