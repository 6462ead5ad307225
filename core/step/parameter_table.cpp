#include "core/step/parameter_table.hpp"

#include <algorithm>

namespace foreshard {

ParameterTable::ParameterTable(const Workload& workload, const std::vector<UnitPlan>& plans) {
  for (const UnitPlan& unit : plans) {
    const std::vector<Parameter>& parameters = workload.units[unit.id.value].parameters;
    std::size_t next = 0;
    for (std::uint32_t g = 0; g < unit.groups.size(); ++g)
      for (const ParameterPlan& plan : unit.groups[g].parameters)
        entries_.push_back({&parameters[next++], &plan, {unit.id, g}});
    if (!unit.groups.empty()) zero_grad_order_.push_back(unit.id);
  }
  std::vector<std::size_t> last_place(plans.size(), 0);
  const std::vector<std::uint32_t> param_groups = param_group_by_place(workload);
  for (std::size_t i = 0; i < workload.parameters_order.size(); ++i) {
    ParameterEntry& entry = entries_[workload.parameters_order[i].value];
    entry.place = static_cast<std::uint32_t>(i);
    entry.param_group = param_groups[i];
    if (entry.parameter->requires_grad) last_place[entry.group.unit.value] = i;  // its .grad goes last
  }
  std::stable_sort(zero_grad_order_.begin(), zero_grad_order_.end(),
                   [&](UnitId a, UnitId b) { return last_place[a.value] < last_place[b.value]; });
}

}  // namespace foreshard
