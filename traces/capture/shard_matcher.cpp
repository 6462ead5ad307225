#include "traces/capture/shard_matcher.hpp"

#include <map>
#include <set>
#include <tuple>

namespace foreshard::traces {
namespace {

/// Depth-first search over where the walk stands: the next allocation, the next parameter of the root,
/// the open unit and its next parameter. Failed states are remembered, so it is linear in their number.
class Matcher {
 public:
  Matcher(std::span<const Bytes> sizes, std::span<const Bytes> shard_bytes, const std::vector<Unit>& units)
      : sizes_(sizes), shard_bytes_(shard_bytes) {
    std::uint32_t next = 0;
    for (const Unit& unit : units) {
      lists_.emplace_back();
      for (std::size_t i = 0; i < unit.parameters.size(); ++i, ++next) {
        if (shard_bytes_[next] > 0) lists_.back().push_back(ParameterId{next});
      }
    }
    if (lists_.empty()) lists_.emplace_back();
    matched_.resize(sizes.size());
  }

  [[nodiscard]] bool search(std::size_t at, std::size_t root, std::size_t unit, std::size_t within) {
    while (unit < lists_.size() && within == lists_[unit].size()) {
      ++unit;
      within = 0;
    }
    if (root == lists_[0].size() && unit >= lists_.size()) return true;
    if (at >= sizes_.size() || !failed_.insert({at, root, unit, within}).second) return false;
    if (unit < lists_.size() && take(at, lists_[unit][within]) && search(at + 1, root, unit, within + 1)) return true;
    if (within == 0 && root < lists_[0].size() && take(at, lists_[0][root]) && search(at + 1, root + 1, unit, within))
      return true;
    matched_[at] = {};
    return search(at + 1, root, unit, within);  // an allocation that is no shard
  }

  [[nodiscard]] const std::vector<ParameterId>& matched() const { return matched_; }

 private:
  bool take(std::size_t at, ParameterId parameter) {
    if (sizes_[at] != shard_bytes_[parameter.value]) return false;
    matched_[at] = parameter;
    return true;
  }

  std::span<const Bytes> sizes_;
  std::span<const Bytes> shard_bytes_;
  std::vector<std::vector<ParameterId>> lists_;  // by unit; [0] is the root's
  std::vector<ParameterId> matched_;
  std::set<std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>> failed_;
};

}  // namespace

ShardMatch match_shards(std::span<const Bytes> sizes, std::span<const Bytes> shard_bytes,
                        const std::vector<Unit>& units) {
  Matcher matcher(sizes, shard_bytes, units);
  ShardMatch match;
  match.complete = matcher.search(0, 0, 1, 0);
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
