#include "sim/sweep/pareto.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

namespace foreshard {
namespace {

std::vector<PointCost> by_time(std::span<const PointCost> points) {
  std::vector<PointCost> sorted(points.begin(), points.end());
  std::sort(sorted.begin(), sorted.end(), [](const PointCost& a, const PointCost& b) {
    return std::make_tuple(a.time(), a.bytes, a.index) < std::make_tuple(b.time(), b.bytes, b.index);
  });
  return sorted;
}

}  // namespace

std::vector<std::size_t> pareto(std::span<const PointCost> points) {
  std::vector<std::size_t> front;
  std::optional<Bytes> smallest;
  for (const PointCost& point : by_time(points)) {
    if (smallest && point.bytes >= *smallest) continue;
    smallest = point.bytes;
    front.push_back(point.index);
  }
  return front;
}

std::vector<std::size_t> ties(std::span<const PointCost> points, std::size_t best) {
  std::vector<std::size_t> near;
  const auto at = std::find_if(points.begin(), points.end(), [&](const PointCost& p) { return p.index == best; });
  if (at == points.end()) return near;
  for (const PointCost& point : by_time(points)) {
    if (point.index == best) continue;
    if (point.time() <= at->time() * (1 + std::max(at->difference, point.difference))) near.push_back(point.index);
  }
  return near;
}

std::size_t smallest(std::span<const PointCost> points, std::size_t best, std::span<const std::size_t> ties) {
  std::optional<PointCost> least;
  for (const PointCost& point : by_time(points)) {
    if (point.index != best && std::find(ties.begin(), ties.end(), point.index) == ties.end()) continue;
    if (!least || point.bytes < least->bytes) least = point;
  }
  return least ? least->index : best;
}

}  // namespace foreshard
