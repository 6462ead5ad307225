#include "traces/capture/shard_matcher.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <set>
#include <utility>

namespace foreshard::traces {
namespace {

/// Depth-first search over where the walk stands: the next allocation of each list, the next parameter of the root,
/// the open unit and its next parameter, and that of the experts' unit inside it. Failed states are remembered, so it
/// is linear in their number.
class Matcher {
 public:
  using Lists = std::span<const std::vector<Bytes>>;

  /// `skips`: the list, of one alone, may have allocations that are no shards.
  Matcher(Lists sizes, bool skips, std::span<const Bytes> shard_bytes, const std::vector<Unit>& units)
      : sizes_(sizes), skips_(skips), shard_bytes_(shard_bytes) {
    std::uint32_t next = 0;
    for (const Unit& unit : units) {
      std::vector<ParameterId> own;
      std::vector<ParameterId> experts;
      for (const Parameter& parameter : unit.parameters) {
        const ParameterId id{next++};
        if (shard_bytes_[id.value] > 0) (parameter.expert_parallel ? experts : own).push_back(id);
      }
      if (!unit.of_experts()) add(std::move(own), false);
      if (!experts.empty()) add(std::move(experts), lists_.size() > 1);
    }
    if (lists_.empty()) add({}, false);
    has_experts_.push_back(false);  // of the last
    for (const std::vector<Bytes>& list : sizes) matched_.emplace_back(list.size());
  }

  [[nodiscard]] bool search() { return search(Walk{.at = std::vector<std::size_t>(sizes_.size())}); }
  /// By list and place in it.
  [[nodiscard]] const std::vector<std::vector<ParameterId>>& matched() const { return matched_; }

 private:
  struct Walk {
    std::vector<std::size_t> at;  ///< by list
    std::size_t root = 0;
    std::size_t unit = 1;
    std::size_t within = 0;
    std::size_t inside = 0;  ///< of the unit behind, where that is of the open unit's experts
    auto operator<=>(const Walk&) const = default;
  };

  [[nodiscard]] bool search(Walk w) {
    for (;; ++w.at.front()) {
      while (w.unit < lists_.size() && w.within == lists_[w.unit].size() && w.inside == inside_of(w.unit))
        w = {std::move(w.at), w.root, w.unit + (has_experts_[w.unit] ? 2 : 1)};
      if (w.root == lists_[0].size() && w.unit >= lists_.size()) return true;
      if (gives_up() || !failed_.insert(w).second) return false;
      if (w.unit < lists_.size()) {
        if (take(w, w.unit, &Walk::within)) return true;
        if (w.inside < inside_of(w.unit) && take(w, w.unit + 1, &Walk::inside)) return true;
      }
      if (w.within == 0 && w.inside == 0 && take(w, 0, &Walk::root)) return true;
      if (!skips_ || w.at.front() >= sizes_[0].size()) return false;
      matched_[0][w.at.front()] = {};  // an allocation that is no shard
    }
  }

  /// The walk on from the parameter at `place` of a unit, where a list has its size next.
  [[nodiscard]] bool take(const Walk& w, std::size_t unit, std::size_t Walk::*place) {
    if (w.*place >= lists_[unit].size()) return false;
    const ParameterId parameter = lists_[unit][w.*place];
    for (std::size_t list = 0; list < sizes_.size(); ++list) {
      const std::size_t at = w.at[list];
      if (at >= sizes_[list].size() || sizes_[list][at] != shard_bytes_[parameter.value]) continue;
      matched_[list][at] = parameter;
      Walk next = w;
      ++next.at[list];
      ++(next.*place);
      if (search(std::move(next))) return true;
    }
    return false;
  }

  /// Of several lists the states are too many to try them all where shards have few sizes.
  [[nodiscard]] bool gives_up() const {
    constexpr std::size_t kMaxStates = std::size_t{1} << 17;
    return sizes_.size() > 1 && failed_.size() > kMaxStates;
  }

  /// `inside`: of the experts of the list before.
  void add(std::vector<ParameterId> list, bool inside) {
    if (!lists_.empty()) has_experts_.push_back(inside);
    lists_.push_back(std::move(list));
  }

  [[nodiscard]] std::size_t inside_of(std::size_t unit) const {
    return has_experts_[unit] ? lists_[unit + 1].size() : 0;
  }

  Lists sizes_;
  bool skips_;
  std::span<const Bytes> shard_bytes_;
  std::vector<std::vector<ParameterId>> lists_;    // by unit, experts apart; [0] is the root's
  std::vector<bool> has_experts_;                  // by list: the one behind is of its experts
  std::vector<std::vector<ParameterId>> matched_;  // by list of sizes
  std::set<Walk> failed_;
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
                        const std::vector<Unit>& units) {
  const std::vector<Bytes> list(sizes.begin(), sizes.end());
  Matcher matcher(std::span(&list, 1), true, shard_bytes, units);
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
  Matcher matcher(groups, false, shard_bytes, units);
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
