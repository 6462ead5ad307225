// Every parameter of a workload by its ParameterId, and the orders that PyTorch goes through them in.
#pragma once

#include <vector>

#include "core/fsdp/fsdp_op.hpp"
#include "core/fsdp/unit_plan.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

struct ParameterEntry {
  const Parameter* parameter = nullptr;
  const ParameterPlan* plan = nullptr;
  ParamGroupId group;
  std::uint32_t place = 0;        ///< in Workload::parameters_order; its initial values' stream too
  std::uint32_t param_group = 0;  ///< which of the optimizer's
};

class ParameterTable {
 public:
  /// Both must outlive this.
  ParameterTable(const Workload& workload, const std::vector<UnitPlan>& plans);

  [[nodiscard]] const ParameterEntry& operator[](ParameterId id) const { return entries_[id.value]; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// Units in the order in which optimizer.zero_grad drops their flat gradients: each goes with its last parameter.
  [[nodiscard]] const std::vector<UnitId>& zero_grad_order() const { return zero_grad_order_; }

 private:
  std::vector<ParameterEntry> entries_;
  std::vector<UnitId> zero_grad_order_;
};

}  // namespace foreshard
