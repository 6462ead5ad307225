#include "traces/capture/param_groups.hpp"

#include <algorithm>
#include <utility>

#include "traces/capture/shard_matcher.hpp"

namespace foreshard::traces {
namespace {

/// What one group's step allocates, in order.
struct GroupRequests {
  std::vector<Bytes> states;
  std::vector<Bytes> temporaries;
};

/// A group is done before the next begins (core/optimizer/optimizer_state.hpp): Adam's temporaries are all freed then,
/// and not before.
std::vector<GroupRequests> split_by_temporaries(std::span<const CaptureEvent> events,
                                                std::span<const std::uint32_t> requests) {
  std::vector<GroupRequests> groups;
  std::size_t live = 0;
  bool done = true;
  for (const std::uint32_t i : requests) {
    const CaptureEvent& e = events[i];
    if (!e.allocates) {
      done = live > 0 && --live == 0;
      continue;
    }
    if (std::exchange(done, false)) groups.emplace_back();
    const bool stays = e.partner == CaptureEvent::kNone;
    if (!stays) ++live;
    (stays ? groups.back().states : groups.back().temporaries).push_back(e.size);
  }
  return groups;
}

/// Of each parameter's allocations (core/optimizer/optimizer_state.cpp) the last, which has its shard's size.
std::vector<Bytes> shards_of(Optimizer optimizer, const GroupRequests& group) {
  const bool fused = optimizer == Optimizer::adam_fused;
  const bool first = !group.states.empty();
  const std::vector<Bytes>& all = first ? group.states : group.temporaries;
  const std::size_t each = first ? (fused ? 3 : 2) : (optimizer == Optimizer::adam_single ? 2 : 1);
  std::vector<Bytes> out;
  for (std::size_t i = each - 1; i < all.size(); i += each) out.push_back(all[i]);
  return out;
}

std::optional<ParamGroups> matched(std::span<const std::vector<Bytes>> groups, std::span<const Bytes> trained,
                                   const std::vector<Unit>& units) {
  GroupMatch match = match_groups(groups, trained, units);
  if (!match.complete) return {};
  return ParamGroups{std::move(match.order), std::move(match.counts)};
}

/// Fused Adam has no temporaries: its groups follow one another, and where the second begins is tried. The first is
/// taken to be as long as it can be.
std::optional<ParamGroups> two_groups(const std::vector<Bytes>& shards, std::span<const Bytes> trained,
                                      const std::vector<Unit>& units) {
  for (std::size_t first = shards.size(); first-- > 1;) {
    const auto cut = shards.begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<Bytes> parts[] = {{shards.begin(), cut}, {cut, shards.end()}};
    if (auto found = matched(parts, trained, units)) return found;
  }
  return {};
}

}  // namespace

std::optional<ParamGroups> find_param_groups(Optimizer optimizer, std::span<const CaptureEvent> events,
                                             std::span<const std::uint32_t> requests, std::span<const Bytes> trained,
                                             const std::vector<Unit>& units) {
  std::vector<std::vector<Bytes>> groups;
  for (const GroupRequests& group : split_by_temporaries(events, requests))
    groups.push_back(shards_of(optimizer, group));
  if (groups.size() > 1) return matched(groups, trained, units);
  if (groups.size() == 1 && optimizer == Optimizer::adam_fused) return two_groups(groups.front(), trained, units);
  return {};
}

ParamGroups given_param_groups(const std::vector<std::vector<ParameterId>>& groups, std::size_t parameters) {
  ParamGroups out;
  std::vector<bool> placed(parameters, false);
  for (const std::vector<ParameterId>& group : groups) {
    out.counts.push_back(static_cast<std::uint32_t>(group.size()));
    for (const ParameterId id : group) {
      out.order.push_back(id);
      placed[id.value] = true;
    }
  }
  for (std::uint32_t p = 0; p < parameters; ++p) {
    if (placed[p]) continue;
    out.order.push_back(ParameterId{p});
    ++out.counts.back();
  }
  return out;
}

}  // namespace foreshard::traces
