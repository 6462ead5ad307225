#include "traces/capture/shard_matcher.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <set>
#include <utility>

namespace foreshard::traces {
namespace {

/// Depth-first search over where the walk stands: the next allocation of each list, and of each unit that is open the
/// next of its own parameters and of what lies in it. States that were tried are remembered, so it is linear in their
/// number.
class Matcher {
 public:
  using Lists = std::span<const std::vector<Bytes>>;

  /// `skips`: the list, of one alone, may have allocations that are no shards.
  Matcher(Lists sizes, bool skips, std::span<const Bytes> shard_bytes, std::vector<UnitNode> nodes)
      : sizes_(sizes), skips_(skips), shard_bytes_(shard_bytes), nodes_(std::move(nodes)) {
    for (const std::vector<Bytes>& list : sizes) matched_.emplace_back(list.size());
  }

  [[nodiscard]] bool search() {
    push({{std::vector<std::size_t>(sizes_.size()), {Open{}}}, kNone, {}});
    while (!to_try_.empty()) {
      Try next = std::move(to_try_.back());
      to_try_.pop_back();
      if (next.list != kNone) matched_[next.list][next.walk.at[next.list] - 1] = next.parameter;
      Walk& walk = next.walk;
      while (!walk.open.empty() && is_done(walk.open.back())) walk.open.pop_back();
      if (walk.open.empty()) return end_at(walk);
      if (gives_up()) return false;
      if (tried_.insert(walk).second) branch(walk);
    }
    return false;
  }
  /// By list and place in it.
  [[nodiscard]] const std::vector<std::vector<ParameterId>>& matched() const { return matched_; }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  /// A unit that the walk is in.
  struct Open {
    std::size_t node = 0;
    std::size_t own = 0;
    std::size_t inside = 0;
    std::size_t list = 0;
    std::size_t in_list = 0;  ///< place in that list
    auto operator<=>(const Open&) const = default;
  };
  struct Walk {
    std::vector<std::size_t> at;  ///< by list
    std::vector<Open> open;       ///< the innermost last
    auto operator<=>(const Walk&) const = default;
  };
  /// A walk, and the parameter that was met last on it.
  struct Try {
    Walk walk;
    std::size_t list = kNone;  ///< whose allocation was taken; none: a unit was entered
    ParameterId parameter;     ///< invalid: an allocation that is no shard
  };

  [[nodiscard]] bool is_done(const Open& open) const {
    const UnitNode& node = nodes_[open.node];
    return open.own == node.own.size() && open.inside == node.inside.size() && open.list == node.lists.size();
  }

  /// Where the walk can go on from there, what is tried last first: the units inside the root come before its own
  /// parameters, which may also lie behind them; a unit's own before those inside.
  void branch(const Walk& walk) {
    const Open& open = walk.open.back();
    const UnitNode& node = nodes_[open.node];
    if (skips_ && walk.at.front() < sizes_.front().size()) {
      push({walk, 0, {}});
      ++to_try_.back().walk.at.front();
    }
    const bool root = walk.open.size() == 1;
    if (root) take_own(walk);
    if (open.list < node.lists.size()) take_of_list(walk);
    if (open.inside < node.inside.size()) {
      push({walk, kNone, {}});
      Walk& next = to_try_.back().walk;
      ++next.open.back().inside;
      next.open.push_back({.node = node.inside[open.inside]});
    }
    if (!root) take_own(walk);
  }

  void take_own(const Walk& walk) {
    const Open& open = walk.open.back();
    const ParameterList& own = nodes_[open.node].own;
    if (open.own < own.size()) take(walk, own[open.own], [](Open& next) { ++next.own; });
  }
  void take_of_list(const Walk& walk) {
    const Open& open = walk.open.back();
    const ParameterList& list = nodes_[open.node].lists[open.list];
    const bool last = open.in_list + 1 >= list.size();
    const auto on = [last](Open& next) { last ? (void)(++next.list, next.in_list = 0) : (void)++next.in_list; };
    if (!list.empty()) return take(walk, list[open.in_list], on);
    push({walk, kNone, {}});
    on(to_try_.back().walk.open.back());
  }

  /// The walks on from the parameter, one for each list that has its size next.
  template <class Step>
  void take(const Walk& walk, ParameterId parameter, Step step) {
    for (std::size_t list = sizes_.size(); list-- > 0;) {
      const std::size_t at = walk.at[list];
      if (at >= sizes_[list].size() || sizes_[list][at] != shard_bytes_[parameter.value]) continue;
      push({walk, list, parameter});
      Walk& next = to_try_.back().walk;
      ++next.at[list];
      step(next.open.back());
    }
  }
  void push(Try next) { to_try_.push_back(std::move(next)); }

  /// What lies behind the last parameter is no shard.
  [[nodiscard]] bool end_at(const Walk& walk) {
    for (std::size_t list = 0; list < matched_.size(); ++list)
      std::fill(matched_[list].begin() + static_cast<std::ptrdiff_t>(walk.at[list]), matched_[list].end(),
                ParameterId{});
    return true;
  }

  /// Of several lists the states are too many to try them all where shards have few sizes.
  [[nodiscard]] bool gives_up() const {
    constexpr std::size_t kMaxOfSeveral = std::size_t{1} << 17;
    constexpr std::size_t kMaxOfOne = std::size_t{1} << 20;
    return tried_.size() > (sizes_.size() > 1 ? kMaxOfSeveral : kMaxOfOne);
  }

  Lists sizes_;
  bool skips_;
  std::span<const Bytes> shard_bytes_;
  std::vector<UnitNode> nodes_;
  std::vector<std::vector<ParameterId>> matched_;  // by list of sizes, of the walk that is tried
  std::vector<Try> to_try_;                        // the next one last
  std::set<Walk> tried_;
};

/// Parameters in the order of their match. Those without bytes on this rank come where their unit's neighbours are:
/// after the parameter that precedes them in their unit.
class MatchedOrder {
 public:
  explicit MatchedOrder(std::span<const Bytes> shard_bytes)
      : shard_bytes_(shard_bytes), placed_(shard_bytes.size(), false) {}

  void add(const std::vector<ParameterId>& matched) {
    for (const ParameterId id : matched)
      if (id.valid() && !placed_[id.value]) add_with_empty_followers(id);
  }
  void add_the_rest() {
    for (std::uint32_t n = 0; n < placed_.size(); ++n)
      if (!placed_[n]) place(n);
  }

  std::vector<ParameterId> order;

 private:
  void add_with_empty_followers(ParameterId id) {
    place(id.value);
    for (std::uint32_t n = id.value + 1; n < placed_.size() && shard_bytes_[n] == 0 && !placed_[n]; ++n) place(n);
  }
  void place(std::uint32_t parameter) {
    order.push_back(ParameterId{parameter});
    placed_[parameter] = true;
  }

  std::span<const Bytes> shard_bytes_;
  std::vector<bool> placed_;
};

}  // namespace

ShardMatch match_shards(std::span<const Bytes> sizes, std::span<const Bytes> shard_bytes,
                        const std::vector<Unit>& units, ModuleWalk walk, std::span<const UnitId> zero_grad_order) {
  const std::vector<Bytes> list(sizes.begin(), sizes.end());
  Matcher matcher(std::span(&list, 1), true, shard_bytes, unit_tree(units, shard_bytes, walk, zero_grad_order));
  ShardMatch match;
  match.complete = matcher.search();
  match.parameter.assign(sizes.size(), ParameterId{});
  if (!match.complete) return match;
  match.parameter = matcher.matched().front();
  MatchedOrder matched(shard_bytes);
  matched.add(match.parameter);
  matched.add_the_rest();
  match.order = std::move(matched.order);
  return match;
}

GroupMatch match_groups(std::span<const std::vector<Bytes>> groups, std::span<const Bytes> shard_bytes,
                        const std::vector<Unit>& units) {
  std::size_t allocations = 0;
  for (const std::vector<Bytes>& group : groups) allocations += group.size();
  const auto empty = std::count(shard_bytes.begin(), shard_bytes.end(), Bytes{0});
  if (allocations + static_cast<std::size_t>(empty) != shard_bytes.size()) return {};
  Matcher matcher(groups, false, shard_bytes, unit_tree(units, shard_bytes, ModuleWalk::parameters, {}));
  GroupMatch match;
  match.complete = matcher.search();
  if (!match.complete) return match;
  MatchedOrder matched(shard_bytes);
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const std::size_t before = matched.order.size();
    matched.add(matcher.matched()[group]);
    if (group + 1 == groups.size()) matched.add_the_rest();
    match.counts.push_back(static_cast<std::uint32_t>(matched.order.size() - before));
  }
  match.order = std::move(matched.order);
  return match;
}

ShardMatch match_shards_in_any_order(std::span<const Bytes> sizes, std::span<const Bytes> shard_bytes) {
  std::map<Bytes, std::vector<ParameterId>> wanted;  // by size, last parameter first
  std::size_t left = 0;
  for (std::size_t p = shard_bytes.size(); p-- > 0;) {
    if (shard_bytes[p] == 0) continue;
    wanted[shard_bytes[p]].push_back(ParameterId{static_cast<std::uint32_t>(p)});
    ++left;
  }
  ShardMatch match;
  match.parameter.assign(sizes.size(), ParameterId{});
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto it = wanted.find(sizes[i]);
    if (it == wanted.end() || it->second.empty()) continue;
    match.parameter[i] = it->second.back();
    it->second.pop_back();
    --left;
  }
  match.complete = left == 0;
  return match;
}

}  // namespace foreshard::traces
