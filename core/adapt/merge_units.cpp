// One block a unit → several (fsdp2 semantics 13.2): hooks of inner members vanish. A list of modules
// keeps the pre-forward (with its input casts) and post-backward of its first member, the post-forward
// and pre-backward of its last.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/adapt/adapt.hpp"
#include "core/adapt/program_kernels.hpp"
#include "core/workload/unit_place.hpp"

namespace foreshard {
namespace {

/// A unit whose forward runs inside another's, which is not the root; and that one.
struct Nested {
  UnitId unit;
  UnitId outer;
};

std::optional<Nested> find_nested(const Workload& workload) {
  for (const Program& program : workload.steps) {
    std::vector<UnitId> open;
    for (const Op& op : program.ops) {
      if (op.kind != OpKind::hook) continue;
      if (op.hook == Hook::post_forward && !open.empty() && open.back() == op.unit) open.pop_back();
      // A forward that is made again in backward may stop early, before its post-forward.
      if (op.hook != Hook::pre_forward && op.hook != Hook::post_forward) open.clear();
      if (op.hook != Hook::pre_forward || op.unit == kRootUnit) continue;
      if (!open.empty()) return Nested{op.unit, open.back()};
      open.push_back(op.unit);
    }
  }
  return std::nullopt;
}

/// Where each unit of the workload goes.
struct Grouping {
  std::vector<Unit> units;
  std::vector<UnitId> group_of;  ///< by old unit
  std::vector<bool> first;       ///< by old unit: first member of its group
  std::vector<bool> last;
};

Grouping group_units(const std::vector<Unit>& units, std::uint32_t wanted, const Settings& settings) {
  Grouping g;  // parameters keep their numbers: groups are made of neighbours
  const std::size_t count = units.size();
  const auto is_block = [&](std::size_t i) { return i < count && unit_place(settings, i, count) == UnitPlace::block; };
  std::uint32_t blocks = 0;  // so far
  for (std::size_t i = 0; i < count; ++i) {
    const bool block = is_block(i);
    const bool first = !block || blocks % wanted == 0;
    blocks += block ? 1 : 0;
    if (first) {
      g.units.push_back(units[i]);
    } else {
      Unit& group = g.units.back();
      group.name += ", " + units[i].name;
      group.parameters.insert(group.parameters.end(), units[i].parameters.begin(), units[i].parameters.end());
    }
    g.group_of.push_back(UnitId{static_cast<std::uint32_t>(g.units.size() - 1)});
    g.first.push_back(first);
    g.last.push_back(!block || !is_block(i + 1) || blocks % wanted == 0);
  }
  return g;
}

bool keeps(const Grouping& g, const Op& op) {
  switch (op.hook) {
    case Hook::pre_forward:
    case Hook::post_backward:
      return g.first[op.unit.value];
    case Hook::post_forward:
    case Hook::pre_backward:
      return g.last[op.unit.value];
    default:
      return true;
  }
}

Program merge(const Program& program, const Grouping& g) {
  Program out;
  out.kernels = program.kernels;
  out.uncomputed = program.uncomputed;
  out.loss = program.loss;
  std::set<TensorId> dropped;  // casts of inner members' inputs
  for (const Op& op : program.ops) {
    const bool inner_cast = op.kind == OpKind::alloc && op.unit.valid() && !g.first[op.unit.value];
    if (inner_cast) dropped.insert(op.tensor);
    const bool goes = inner_cast ||
                      (op.kind == OpKind::free && op.steps_ago == 0 && !op.from_setup && !op.before_recording &&
                       dropped.contains(op.tensor)) ||
                      (op.kind == OpKind::hook && op.unit.valid() && !keeps(g, op));
    if (goes) continue;  // a hook that is gone takes its host time with it
    Op kept = op;
    if (kept.unit.valid()) kept.unit = g.group_of[kept.unit.value];
    out.ops.push_back(kept);
  }
  if (!kernels_hold(out)) drop_kernels(out);  // one lies in a cast that is gone
  return out;
}

/// A merged unit's section: the members' device work, added item by item (the nth of a role to the nth of that role);
/// the host cost and the metadata copy of one member (time model 1.1 step 6).
SectionCost merge_sections(const std::vector<const SectionCost*>& members, UnitId unit) {
  std::map<SectionRole, std::vector<Nanoseconds>> work;
  for (const SectionCost* member : members) {
    std::map<SectionRole, std::size_t> seen;
    for (const SectionItem& item : member->items) {
      std::vector<Nanoseconds>& sums = work[item.role];
      const std::size_t nth = seen[item.role]++;
      if (nth == sums.size()) sums.emplace_back();
      sums[nth] += item.work;
    }
  }
  SectionCost out = *members.front();
  out.unit = unit;
  std::map<SectionRole, std::size_t> seen;
  for (SectionItem& item : out.items) {
    const std::size_t nth = seen[item.role]++;
    if (item.role != SectionRole::metadata_copy) item.work = work[item.role][nth];
  }
  return out;
}

void merge_costs(Workload& workload, const Grouping& g) {
  using Key = std::tuple<Section, UnitId, std::uint32_t, Pass>;
  std::map<Key, std::vector<const SectionCost*>> members;
  std::vector<Key> order;
  for (const SectionCost& cost : workload.sections) {
    const Key key{cost.section, g.group_of[cost.unit.value], cost.group, cost.pass};
    if (members[key].empty()) order.push_back(key);
    members[key].push_back(&cost);
  }
  std::vector<SectionCost> merged;
  for (const Key& key : order) merged.push_back(merge_sections(members[key], std::get<UnitId>(key)));
  workload.sections = std::move(merged);
}

}  // namespace

Result<void> merge_units(Workload& workload, std::uint32_t wanted) {
  if (wanted == 0) return fail(ErrorKind::usage, "units_per_group must be at least 1");
  if (wanted == 1) return {};
  if (const auto nested = find_nested(workload))
    return fail(ErrorKind::usage,
                fmt::format("units_per_group {} gives neighbouring blocks to fully_shard together, and here unit '{}' "
                            "lies inside unit '{}'",
                            wanted, workload.units[nested->unit.value].name, workload.units[nested->outer.value].name),
                {}, "leave units_per_group at 1, or record a step whose units are joined as you want them");
  const Grouping g = group_units(workload.units, wanted, workload.settings);
  for (Program& program : workload.steps) program = merge(program, g);
  merge_costs(workload, g);
  workload.units = g.units;
  return {};
}

}  // namespace foreshard
