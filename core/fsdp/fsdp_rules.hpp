// What differs between PyTorch versions in FSDP2's schedule (fsdp2 semantics 10). As
// core/allocator/allocator_rules.hpp: one plain value, so that core/fsdp asks a rule and never a version number.
//
// Not every difference is here: a plan of a version other than kFsdpSchedule follows these, says so, and is not `valid`
// (core/settings/pytorch_version.hpp). A rule is added as a field with the version and the change that brought it, the
// line in fsdp_rules() that sets it, and its words in differences().
#pragma once

#include <string_view>
#include <vector>

namespace foreshard {

/// Defaults are those of kFsdpSchedule, 2.11.
struct FsdpRules {
  /// fully_shard(root, reshard_after_forward=True) is honoured (2.8: pytorch#154704, #155319). Before, lazy_init keeps
  /// the root's parameters unsharded after forward whatever was asked.
  bool root_reshards = true;
  /// The previous group's reduce-scatter input is waited for and freed also before a group that has nothing to reduce
  /// (2.12: pytorch#177319, FSDPParamGroup.post_backward: ahead of its early return). Before, only a group that reduces
  /// frees it.
  bool frees_input_before_idle_group = false;

  bool operator==(const FsdpRules&) const = default;
};

/// Those of a version that kKnownPyTorch has; of any other text those of kFsdpSchedule.
[[nodiscard]] FsdpRules fsdp_rules(std::string_view pytorch);

/// Where `rules` differ from kFsdpSchedule's, as clauses for a sentence.
[[nodiscard]] std::vector<std::string_view> differences(const FsdpRules& rules);

}  // namespace foreshard
