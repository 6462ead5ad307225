#include "sim/network/node_pattern.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace foreshard::sim {
namespace {

/// Parent of a member in the first tree (ncclGetBtree): its lowest bit moves one up, or goes where there is no such
/// member. The root, 0, is its own.
std::uint32_t parent(std::uint32_t member, std::uint32_t count) {
  if (member == 0) return 0;
  const std::uint32_t low = member & (~member + 1);
  const std::uint32_t rest = member ^ low;
  const std::uint32_t up = rest | (low << 1);
  return up < count ? up : rest;
}

/// In the second tree, which is the first one mirrored, or shifted by one where the count is odd.
std::uint32_t second_parent(std::uint32_t member, std::uint32_t count) {
  if (count % 2 == 0) return count - 1 - parent(count - 1 - member, count);
  return (parent((member + count - 1) % count, count) + 1) % count;
}

class Counting {
 public:
  Counting(const Fabric& fabric, const Placement& group) : fabric_(fabric), group_(group) {}

  /// From one member to another one, of which a share for another rail; how many levels it leaves.
  double add(std::uint32_t from, std::uint32_t to, double share, double other_rail = 0) {
    const std::uint32_t a = group_.node(from), b = group_.node(to);
    shares_[fabric_.adapter_out(a)] += share;
    shares_[fabric_.adapter_in(b)] += share;
    double levels = 0;
    if (other_rail < 1) levels = count(&Fabric::route, a, b, share * (1 - other_rail));
    if (other_rail > 0) levels = std::max(levels, count(&Fabric::route_to_other_rail, a, b, share * other_rail));
    longest_ = std::max(longest_, levels);
    return levels;
  }

  double levels(std::uint32_t from, std::uint32_t to) {
    way_.clear();
    return fabric_.route(group_.node(from), group_.node(to), way_);
  }

  [[nodiscard]] Traffic take(double levels) const {
    Traffic out;
    for (const auto& [link, share] : shares_) out.shares.push_back({link, share});
    out.levels = levels;
    out.longest_step = longest_;
    return out;
  }

 private:
  using Route = std::uint32_t (Fabric::*)(std::uint32_t, std::uint32_t, std::vector<std::uint32_t>&) const;

  double count(Route route, std::uint32_t a, std::uint32_t b, double share) {
    way_.clear();
    const std::uint32_t levels = (fabric_.*route)(a, b, way_);
    for (const std::uint32_t link : way_) shares_[link] += share;
    return levels;
  }

  const Fabric& fabric_;
  const Placement& group_;
  std::map<std::uint32_t, double> shares_;
  std::vector<std::uint32_t> way_;
  double longest_ = 0;
};

Traffic of_ring(const Fabric& fabric, const Placement& group, double other_rail) {
  Counting counting(fabric, group);
  double all = 0, least = 0;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    const double levels = counting.add(i, (i + 1) % group.count, 1, other_rail);
    least = i == 0 ? levels : std::min(least, levels);
    all += levels;
  }
  return counting.take(all - least);
}

Traffic of_tree(const Fabric& fabric, const Placement& group) {
  constexpr double kEdge = 0.25;  // half of the bytes in each direction, where a node sends the bytes twice
  Counting counting(fabric, group);
  double most = 0;
  for (const auto parent_of : {parent, second_parent}) {
    for (std::uint32_t i = 0; i < group.count; ++i) {
      const std::uint32_t up = parent_of(i, group.count);
      if (up == i) continue;
      counting.add(i, up, kEdge);
      counting.add(up, i, kEdge);
      double levels = 0;
      for (std::uint32_t at = i, next = up; at != next; at = next, next = parent_of(at, group.count))
        levels += counting.levels(at, next);
      most = std::max(most, levels);
    }
  }
  return counting.take(most);
}

/// Members that lie side by side under one leaf, which are alike but for their adapters.
struct Run {
  std::uint32_t begin = 0, end = 0;
  [[nodiscard]] double members() const { return end - begin; }
};

std::vector<Run> runs_under_leaves(const Fabric& fabric, const Placement& group) {
  Counting counting(fabric, group);
  std::vector<Run> out;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    if (out.empty() || counting.levels(out.back().begin, i) > 0) out.push_back({i, i});
    out.back().end = i + 1;
  }
  return out;
}

Traffic of_all_to_all(const Fabric& fabric, const Placement& group, double other_rail) {
  std::map<std::uint32_t, double> shares;
  for (std::uint32_t i = 0; i < group.count; ++i)
    shares[fabric.adapter_out(group.node(i))] = shares[fabric.adapter_in(group.node(i))] = 1;
  double levels = 0;
  std::vector<std::uint32_t> way;
  const std::vector<Run> leaves = runs_under_leaves(fabric, group);
  for (const Run& a : leaves)
    for (const Run& b : leaves) {
      const double pairs = &a == &b ? a.members() * (a.members() - 1) : a.members() * b.members();
      if (pairs <= 0) continue;
      const std::uint32_t from = group.node(a.begin), to = group.node(b.begin);
      const auto count = [&](std::uint32_t left, double of) {
        levels = std::max<double>(levels, left);
        for (const std::uint32_t link : way) shares[link] += of * pairs / (group.count - 1);
        way.clear();
      };
      if (other_rail < 1) count(fabric.route(from, to, way), 1 - other_rail);
      if (other_rail > 0) count(fabric.route_to_other_rail(from, to, way), other_rail);
    }
  Traffic out;
  for (const auto& [link, share] : shares) out.shares.push_back({link, share});
  out.levels = out.longest_step = levels;
  return out;
}

/// The switches' tree lies along the ways from one member to the others and back: each link of them is used once,
/// however many members are behind it.
Traffic of_aggregation(const Fabric& fabric, const Placement& group) {
  std::set<std::uint32_t> links;
  std::vector<std::uint32_t> way;
  std::uint32_t levels = 0;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    links.insert({fabric.adapter_out(group.node(i)), fabric.adapter_in(group.node(i))});
    if (i == 0) continue;
    way.clear();
    levels = std::max(levels, fabric.route(group.node(0), group.node(i), way));
    fabric.route(group.node(i), group.node(0), way);
    links.insert(way.begin(), way.end());
  }
  Traffic out;
  for (const std::uint32_t link : links) out.shares.push_back({link, 1});
  out.levels = out.longest_step = levels;
  return out;
}

}  // namespace

Traffic traffic(const Fabric& fabric, const Placement& group, NodePattern pattern, double other_rail) {
  switch (pattern) {
    case NodePattern::tree:
      return of_tree(fabric, group);
    case NodePattern::all_to_all:
      return of_all_to_all(fabric, group, other_rail);
    case NodePattern::aggregation:
      return of_aggregation(fabric, group);
    case NodePattern::send:
      return of_ring(fabric, group, other_rail);
    case NodePattern::ring:
      break;
  }
  return of_ring(fabric, group, 0);
}

}  // namespace foreshard::sim
