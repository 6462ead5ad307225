#include "sim/tune/gather_order.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

namespace foreshard::sim {
namespace {

using Lists = std::map<std::string, std::vector<std::string>>;
using Places = std::vector<std::uint32_t>;

/// The depth, where every unit is gathered as far ahead as that allows.
std::optional<std::uint32_t> forward_depth(const Places& at) {
  std::uint32_t depth = 0;
  for (std::uint32_t u = 1; u < at.size(); ++u) depth = std::max(depth, u - at[u]);
  for (std::uint32_t u = 1; u < at.size(); ++u)
    if (at[u] != (u > depth ? u - depth : 1)) return std::nullopt;
  return depth;
}

std::optional<std::uint32_t> backward_depth(const Places& at) {
  const auto last = static_cast<std::uint32_t>(at.size() - 1);
  std::uint32_t depth = 0;
  for (std::uint32_t u = 1; u < at.size(); ++u) depth = std::max(depth, at[u] - u);
  for (std::uint32_t u = 1; u < at.size(); ++u)
    if (at[u] != std::min(last, u + depth)) return std::nullopt;
  return depth;
}

void read_lists(const Lists& lists, const std::vector<Unit>& units, bool forward, Places& at) {
  std::map<std::string, std::uint32_t> index;
  for (std::uint32_t u = 0; u < units.size(); ++u) index.emplace(units[u].name, u);
  for (const auto& [owner, targets] : lists) {
    const auto by = index.find(owner);
    if (by == index.end() || by->second == 0) continue;
    for (const std::string& target : targets) {
      const auto unit = index.find(target);
      if (unit == index.end() || unit->second == 0) continue;
      std::uint32_t& place = at[unit->second];
      place = forward ? std::min(place, by->second) : std::max(place, by->second);
    }
  }
}

}  // namespace

GatherOrder gather_order(const Settings& settings, const std::vector<Unit>& units) {
  GatherOrder order;
  const auto count = static_cast<std::uint32_t>(units.size());
  order.forward.resize(count);
  order.backward.resize(count);
  const auto has = [&](const Lists& lists, std::uint32_t unit) { return lists.contains(units[unit].name); };
  for (std::uint32_t u = 1; u < count; ++u) {
    order.forward[u] = order.backward[u] = u;
    const PrefetchLists& lists = settings.prefetch_lists;
    for (std::uint32_t d = 1; d <= settings.forward_prefetch.value_or(0) && d < u; ++d)
      if (!has(lists.forward, u - d)) order.forward[u] = u - d;
    for (std::uint32_t d = 1; d <= settings.backward_prefetch.value_or(1) && u + d < count; ++d)
      if (!has(lists.backward, u + d)) order.backward[u] = u + d;
  }
  read_lists(settings.prefetch_lists.forward, units, true, order.forward);
  read_lists(settings.prefetch_lists.backward, units, false, order.backward);
  return order;
}

void set_gather_order(const GatherOrder& order, const std::vector<Unit>& units, Settings& settings) {
  const GatherOrder before = gather_order(settings, units);
  const auto count = static_cast<std::uint32_t>(units.size());
  if (order.forward != before.forward) {
    settings.prefetch_lists.forward.clear();
    settings.forward_prefetch.reset();
    const auto depth = forward_depth(order.forward);
    if (depth && *depth > 0) settings.forward_prefetch = depth;
    for (std::uint32_t u = 1; u < count && !depth; ++u)
      if (order.forward[u] < u) settings.prefetch_lists.forward[units[order.forward[u]].name].push_back(units[u].name);
  }
  if (order.backward == before.backward) return;
  settings.prefetch_lists.backward.clear();
  settings.backward_prefetch.reset();
  const auto depth = backward_depth(order.backward);
  if (depth && *depth > 1) settings.backward_prefetch = depth;
  for (std::uint32_t u = count; --u > 0 && !depth;)
    if (order.backward[u] > u) settings.prefetch_lists.backward[units[order.backward[u]].name].push_back(units[u].name);
  // A list of the unit before alone is FSDP2's own rule.
  std::erase_if(settings.prefetch_lists.backward, [&](const auto& list) {
    const auto by = std::find_if(units.begin(), units.end(), [&](const Unit& unit) { return unit.name == list.first; });
    return list.second.size() == 1 && list.second.front() == std::prev(by)->name;
  });
}

}  // namespace foreshard::sim
