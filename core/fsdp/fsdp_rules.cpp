#include "core/fsdp/fsdp_rules.hpp"

#include <optional>

#include "core/settings/pytorch_version.hpp"

namespace foreshard {

FsdpRules fsdp_rules(std::string_view pytorch) {
  FsdpRules rules;
  const std::optional<int> minor = pytorch_minor(pytorch);
  if (!minor) return rules;
  rules.root_reshards = *minor >= 8;
  rules.frees_input_before_idle_group = *minor >= 12;
  return rules;
}

std::vector<std::string_view> differences(const FsdpRules& rules) {
  constexpr FsdpRules kSchedule;
  std::vector<std::string_view> out;
  if (rules.root_reshards != kSchedule.root_reshards) out.emplace_back("the root keeps its parameters after forward");
  if (rules.frees_input_before_idle_group != kSchedule.frees_input_before_idle_group)
    out.emplace_back("a group without gradients frees the reduce-scatter input before it");
  return out;
}

}  // namespace foreshard
