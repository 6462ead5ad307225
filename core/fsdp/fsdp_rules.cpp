#include "core/fsdp/fsdp_rules.hpp"

#include "core/settings/pytorch_version.hpp"
#include "core/settings/version_rules.hpp"

namespace foreshard {

FsdpRules fsdp_rules(std::string_view pytorch) {
  FsdpRules rules;
  rules.root_reshards = holds(RuleId::root_reshards, pytorch);
  rules.frees_input_before_idle_group = holds(RuleId::reduce_inputs_listed, pytorch);
  rules.keeps_inputs_in_flight = holds(RuleId::reduce_input_cap, pytorch);
  rules.waits_once_a_stream = holds(RuleId::one_wait_a_stream, pytorch);
  rules.completes_partial_units = holds(RuleId::partial_units_completed, pytorch);
  rules.frees_gather_first = holds(RuleId::gather_freed_first, pytorch);
  rules.frees_gradients_first = holds(RuleId::gradients_freed_first, pytorch);
  rules.frees_gather_after_backward = holds(RuleId::partial_forward_released, pytorch);
  return rules;
}

}  // namespace foreshard
