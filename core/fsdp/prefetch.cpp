#include "core/fsdp/prefetch.hpp"

#include <fmt/format.h>

#include "core/fsdp/fully_shard.hpp"

namespace foreshard {
namespace {

Result<std::vector<UnitId>> resolve_list(const std::vector<std::string>& names, const std::vector<Unit>& units,
                                         const std::string& owner) {
  std::vector<UnitId> ids;
  for (const std::string& name : names) {
    const auto id = find_unit(name, units, fmt::format("prefetch_lists of \"{}\"", owner));
    FORESHARD_TRY(id);
    ids.push_back(*id);
  }
  return ids;
}

/// Units in order, those of experts together with the one before them, which is around them; without the root.
std::vector<std::vector<UnitId>> units_to_prefetch(const std::vector<Unit>& units) {
  std::vector<std::vector<UnitId>> out;
  for (std::uint32_t i = 1; i < units.size(); ++i) {
    if (out.empty() || !units[i].of_experts()) out.emplace_back();
    out.back().push_back(UnitId{i});
  }
  return out;
}

}  // namespace

Result<void> plan_prefetch(const Settings& settings, const std::vector<Unit>& units, std::vector<UnitPlan>& plans) {
  const auto count = static_cast<std::uint32_t>(units.size());
  const std::vector<std::vector<UnitId>> places = units_to_prefetch(units);
  const auto append = [](std::vector<UnitId>& targets, const std::vector<UnitId>& more) {
    targets.insert(targets.end(), more.begin(), more.end());
  };
  for (std::size_t i = 0; i < places.size(); ++i) {
    UnitPlan& plan = plans[places[i].front().value];
    for (std::uint32_t k = 1; k <= settings.forward_prefetch.value_or(0) && i + k < places.size(); ++k)
      append(plan.forward_prefetch, places[i + k]);
    for (std::uint32_t k = 1; k <= settings.backward_prefetch.value_or(0) && i >= k; ++k)
      append(plan.backward_prefetch, places[i - k]);
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto& lists = settings.prefetch_lists;
    if (auto it = lists.forward.find(units[i].name); it != lists.forward.end()) {
      auto ids = resolve_list(it->second, units, units[i].name);
      FORESHARD_TRY(ids);
      plans[i].forward_prefetch = *ids;
    }
    if (auto it = lists.backward.find(units[i].name); it != lists.backward.end()) {
      auto ids = resolve_list(it->second, units, units[i].name);
      FORESHARD_TRY(ids);
      plans[i].backward_prefetch = *ids;
    }
  }
  return {};
}

void FullyShard::forward_prefetch(UnitId unit) {
  for (UnitId target : plan(unit).forward_prefetch) prefetch(target, Training::forward);
}

void FullyShard::backward_prefetch(UnitId unit) {
  for (UnitId target : plan(unit).backward_prefetch) prefetch(target, Training::pre_backward);
}

void FullyShard::backward_prefetch(ParamGroupId id) {
  std::vector<std::size_t>& indices = state(id).post_forward_indices;
  if (!plan(id.unit).backward_prefetch.empty() || indices.empty()) return;
  const std::size_t index = indices.back();
  indices.pop_back();
  if (plan(id.unit).groups.size() > 1) return backward_prefetch_groups(id, index);
  if (index >= 1) prefetch(post_forward_order_[index - 1], Training::pre_backward);
}

// 2.12 and later. Only the group of index 1, the last but one that backward reaches, prefetches: all groups of the unit
// that ran before, the last first.
void FullyShard::backward_prefetch_groups(ParamGroupId id, std::size_t index) {
  if (id.index != 1) return;
  std::optional<UnitId> target;
  for (std::size_t step = 1; step <= index; ++step) {
    const ParamGroupId before = post_forward_order_[index - step];
    if (before.unit == id.unit) continue;
    if (target && before.unit != *target) return;
    target = before.unit;
    prefetch(before, Training::pre_backward);
  }
}

void FullyShard::prefetch(UnitId target, Training pass) {
  if (pass == Training::forward)
    each_group(target, [&](ParamGroupId id) { prefetch(id, pass); });
  else
    each_group_back(target, [&](ParamGroupId id) { prefetch(id, pass); });
}

void FullyShard::prefetch(ParamGroupId target, Training pass) {
  const Training kept = state(target.unit).training;
  state(target.unit).training = pass;
  unshard(target);
  state(target.unit).training = kept;
}

}  // namespace foreshard
