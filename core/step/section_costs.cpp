#include "core/step/section_costs.hpp"

#include <algorithm>

#include "core/shard/layout.hpp"
#include "core/workload/pytorch_costs.hpp"

namespace foreshard {
namespace {

bool has_role(const SectionCost& cost, SectionRole role) {
  return std::any_of(cost.items.begin(), cost.items.end(), [&](const SectionItem& i) { return i.role == role; });
}

bool is_shard_sized(SectionRole role) {
  return role == SectionRole::cast || role == SectionRole::copy_in || role == SectionRole::offload_copy;
}

}  // namespace

SectionCosts::SectionCosts(const Workload& workload, const Settings& wanted) : workload_(workload), wanted_(wanted) {
  for (const SectionCost& cost : workload.sections)
    templates_.emplace(Key{cost.section, cost.unit, cost.group, cost.pass}, &cost);
  if (wanted.shard_ranks() > 0)
    shard_scale_ = static_cast<double>(workload.settings.shard_ranks()) / static_cast<double>(wanted.shard_ranks());
}

const SectionCost* SectionCosts::lookup(Section section, ParamGroupId group, Pass pass) const {
  const auto it = templates_.find({section, group.unit, group.index, pass});
  return it == templates_.end() ? nullptr : it->second;
}

/// Units with the same shapes, nearest first: their templates stand for one another.
std::vector<UnitId> SectionCosts::alike(UnitId unit) const {
  const Unit& wanted = workload_.units[unit.value];
  std::vector<UnitId> out;
  for (std::uint32_t i = 0; i < workload_.units.size(); ++i) {
    const Unit& other = workload_.units[i];
    if (UnitId{i} == unit || other.parameters.size() != wanted.parameters.size()) continue;
    const bool same = std::equal(other.parameters.begin(), other.parameters.end(), wanted.parameters.begin(),
                                 [](const Parameter& a, const Parameter& b) { return a.shape == b.shape; });
    if (same) out.push_back(UnitId{i});
  }
  std::stable_sort(out.begin(), out.end(), [&](UnitId a, UnitId b) {
    const auto distance = [&](UnitId u) { return u.value > unit.value ? u.value - unit.value : unit.value - u.value; };
    return distance(a) < distance(b);
  });
  return out;
}

const SectionCost* SectionCosts::nearest(Section section, ParamGroupId group, Pass pass) const {
  const Pass other_pass = pass == Pass::forward ? Pass::backward : Pass::forward;
  const SectionCost* found = lookup(section, group, pass);
  const std::vector<UnitId> twins = found == nullptr ? alike(group.unit) : std::vector<UnitId>{};
  for (const Pass of : {pass, other_pass}) {
    if (found == nullptr) found = lookup(section, group, of);
    for (std::size_t i = 0; found == nullptr && i < twins.size(); ++i)
      found = lookup(section, {twins[i], group.index}, of);
  }
  return found;
}

SectionCost SectionCosts::resolve(Section section, ParamGroupId group, Pass pass) {
  const SectionCost* found = nearest(section, group, pass);
  if (found == nullptr && group.index > 0) found = nearest(section, {group.unit, 0}, pass);
  SectionCost cost;
  if (found != nullptr) {
    cost = *found;
  } else if (!workload_.sections.empty() && section != Section::accumulate && section != Section::reshard &&
             section != Section::zero_grad) {
    ++misses_;
  }
  cost.section = section;
  cost.unit = group.unit;
  cost.group = group.index;
  cost.pass = pass;
  const bool on_cpu = section == Section::optimizer && cost.items.empty();
  if (on_cpu && shard_scale_ != 1) cost.host_after = cost.host_after.scaled(shard_scale_);
  for (SectionItem& item : cost.items) {
    const bool shard_sized =
        is_shard_sized(item.role) || section == Section::optimizer || section == Section::zero_grad;
    if (shard_sized && shard_scale_ != 1) item.work = item.work.scaled(shard_scale_);
  }
  if (!workload_.sections.empty()) add_unrecorded(cost);
  return cost;
}

/// foreach_reduce: `sharded_param.grad._local_tensor += new_sharded_grad`, a kernel a parameter.
void SectionCosts::add_reduced_sums(SectionCost& cost) const {
  if (!wanted_.adds_reduced_gradients() || has_role(cost, SectionRole::gradient_add)) return;
  constexpr Bytes kAccesses = 3;  // reads both, writes one
  for (const Parameter& p : workload_.units[cost.unit.value].parameters) {
    if (!p.requires_grad) continue;
    const Bytes shard = local_shard_numel(p, shard_dimension(wanted_)) * itemsize(p.dtype);
    cost.items.push_back({SectionRole::gradient_add,
                          pytorch_costs::kGradientOpHost.time(),
                          {},
                          KernelClass::memory_bound,
                          kAccesses * shard,
                          {}});
  }
}

/// One kernel a parameter for work that only other settings than the recorded ones do.
void SectionCosts::add_unrecorded(SectionCost& cost) const {
  SectionRole role = SectionRole::gradient_add;
  double bytes_per_element = pytorch_costs::kAddBytes.value;
  if (cost.section == Section::reshard && cost.pass == Pass::backward) {
    role = SectionRole::gradient_cast;
    bytes_per_element = pytorch_costs::kCastBytes.value;
  } else if (cost.section == Section::reshard) {
    const auto own = wanted_.reshard_of_unit.find(workload_.units[cost.unit.value].name);
    const Reshard& reshard = own == wanted_.reshard_of_unit.end() ? wanted_.reshard_after_forward : own->second;
    if (reshard.kind != Reshard::Kind::group) return;
    role = SectionRole::clone;
    bytes_per_element = pytorch_costs::kCloneBytes.value / reshard.group_size;
  } else if (cost.section == Section::reduce) {
    return add_reduced_sums(cost);
  } else if (cost.section != Section::accumulate) {
    return;
  }
  if (has_role(cost, role)) return;
  const Nanoseconds host = pytorch_costs::kGradientOpHost.time();
  for (const Parameter& p : workload_.units[cost.unit.value].parameters) {
    if (role != SectionRole::clone && !p.requires_grad) continue;
    cost.items.push_back({role,
                          host,
                          {},
                          KernelClass::memory_bound,
                          static_cast<Bytes>(static_cast<double>(p.numel()) * bytes_per_element),
                          {}});
  }
}

const SectionCost& SectionCosts::find(Section section, ParamGroupId group, Pass pass) {
  const Key key{section, group.unit, group.index, pass};
  if (auto it = resolved_.find(key); it != resolved_.end()) return it->second;
  return resolved_.emplace(key, resolve(section, group, pass)).first->second;
}

}  // namespace foreshard
