#include "traces/capture/shard_matcher.hpp"

#include <compare>
#include <map>
#include <set>
#include <utility>

namespace foreshard::traces {
namespace {

/// Depth-first search over where the walk stands: the next allocation, the next parameter of the root,
/// the open unit and its next parameter, and that of the experts' unit inside it. Failed states are remembered, so it
/// is linear in their number.
class Matcher {
 public:
  Matcher(std::span<const Bytes> sizes, std::span<const Bytes> shard_bytes, const std::vector<Unit>& units)
      : sizes_(sizes), shard_bytes_(shard_bytes) {
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
    matched_.resize(sizes.size());
  }

  struct Walk {
    std::size_t at = 0;
    std::size_t root = 0;
    std::size_t unit = 1;
    std::size_t within = 0;
    std::size_t inside = 0;  ///< of the unit behind, where that is of the open unit's experts
    auto operator<=>(const Walk&) const = default;
  };

  [[nodiscard]] bool search(Walk w) {
    while (w.unit < lists_.size() && w.within == lists_[w.unit].size() && w.inside == inside_of(w.unit))
      w = {w.at, w.root, w.unit + (has_experts_[w.unit] ? 2 : 1)};
    if (w.root == lists_[0].size() && w.unit >= lists_.size()) return true;
    if (w.at >= sizes_.size() || !failed_.insert(w).second) return false;
    Walk next = w;
    ++next.at;
    if (w.unit < lists_.size()) {
      if (takes(w.at, w.unit, w.within) && search({next.at, w.root, w.unit, w.within + 1, w.inside})) return true;
      if (w.inside < inside_of(w.unit) && takes(w.at, w.unit + 1, w.inside) &&
          search({next.at, w.root, w.unit, w.within, w.inside + 1}))
        return true;
    }
    if (w.within == 0 && w.inside == 0 && takes(w.at, 0, w.root) && search({next.at, w.root + 1, w.unit})) return true;
    matched_[w.at] = {};
    return search(next);  // an allocation that is no shard
  }

  [[nodiscard]] const std::vector<ParameterId>& matched() const { return matched_; }

 private:
  /// `inside`: of the experts of the list before.
  void add(std::vector<ParameterId> list, bool inside) {
    if (!lists_.empty()) has_experts_.push_back(inside);
    lists_.push_back(std::move(list));
  }

  [[nodiscard]] std::size_t inside_of(std::size_t unit) const {
    return has_experts_[unit] ? lists_[unit + 1].size() : 0;
  }

  bool takes(std::size_t at, std::size_t unit, std::size_t place) {
    if (place >= lists_[unit].size() || sizes_[at] != shard_bytes_[lists_[unit][place].value]) return false;
    matched_[at] = lists_[unit][place];
    return true;
  }

  std::span<const Bytes> sizes_;
  std::span<const Bytes> shard_bytes_;
  std::vector<std::vector<ParameterId>> lists_;  // by unit, experts apart; [0] is the root's
  std::vector<bool> has_experts_;                // by list: the one behind is of its experts
  std::vector<ParameterId> matched_;
  std::set<Walk> failed_;
};

}  // namespace

ShardMatch match_shards(std::span<const Bytes> sizes, std::span<const Bytes> shard_bytes,
                        const std::vector<Unit>& units) {
  Matcher matcher(sizes, shard_bytes, units);
  ShardMatch match;
  match.complete = matcher.search({});
  match.parameter.assign(sizes.size(), ParameterId{});
  if (!match.complete) return match;
  match.parameter = matcher.matched();
  // Parameters without bytes on this rank come where their unit's neighbours are; order is by match, with
  // unmatched ones after the parameter that precedes them in their unit.
  std::vector<bool> placed(shard_bytes.size(), false);
  const auto place_with_empty_followers = [&](ParameterId id) {
    match.order.push_back(id);
    placed[id.value] = true;
    for (std::uint32_t n = id.value + 1; n < shard_bytes.size() && shard_bytes[n] == 0 && !placed[n]; ++n) {
      match.order.push_back(ParameterId{n});
      placed[n] = true;
    }
  };
  for (ParameterId id : match.parameter)
    if (id.valid() && !placed[id.value]) place_with_empty_followers(id);
  for (std::uint32_t n = 0; n < shard_bytes.size(); ++n)
    if (!placed[n]) match.order.push_back(ParameterId{n});
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
