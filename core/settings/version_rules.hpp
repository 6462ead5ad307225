// The rules that differ between PyTorch versions: every difference that is known, each with a name, the version that
// brought it and where that was read. The one place that switches them.
//
// Who: core/fsdp/fsdp_rules.cpp and core/allocator/allocator_rules.cpp make their plain values of holds();
// sim/predict says what a plan of another version rests on; cli's `rules` and docs/versions.md list them.
//
// A version is one of kKnownPyTorch, or for the allocator alone an older one; "main" is the development branch as it
// was read at kMainRead. "2.13~ties-by-creation" is 2.13 without that rule, for what-ifs: any number of rules, each
// behind a "~". Pure, no state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreshard {

enum class RuleArea : std::uint8_t { fsdp2 = 0, allocator = 1, libraries = 2 };

/// What of a step a rule moves.
enum class RuleEffect : std::uint8_t { nothing = 0, bytes = 1, time = 2, both = 3 };

/// What a plan makes of a rule.
enum class RulePlanned : std::uint8_t {
  yes = 0,      ///< followed
  setting = 1,  ///< followed where a setting asks for it: VersionRule::setting
  not_met = 2,  ///< no program that is planned gets there
  no = 3,       ///< not followed
};

enum class RuleId : std::uint8_t {
  // The caching allocator.
  expandable_private_pools,
  split_by_request,
  use_on_oom,
  shared_parser,
  preemptive_oom,
  custom_pool_ties,
  ties_by_creation,
  capture_alone_suspends,
  symmetric_pool_registration,
  reserve_by_stream,
  // FSDP2.
  root_reshards,
  groups_per_mesh,
  reduce_inputs_listed,
  symmetric_memory_call,
  reduce_input_cap,
  separate_reduce_group,
  one_wait_a_stream,
  partial_units_completed,
  partial_group_wait,
  unused_gradients,
  recompute_casts_inputs,
  offload_hooks_block,
  symmetric_reduce_sums,
  gather_freed_first,
  partial_forward_released,
  gradients_freed_first,
  all_gather_layouts,
  hook_keeps_reduced,
  // CUDA's libraries.
  cublas_blackwell,
  cublas_thor,
};
inline constexpr std::size_t kVersionRules = 30;

struct VersionRule {
  RuleId id;
  std::string_view name;  ///< as in `foreshard rules`
  RuleArea area = RuleArea::fsdp2;
  int since = 0;  ///< 13 of 2.13; kMainMinor of main. The first version that has it
  RuleEffect moves = RuleEffect::nothing;
  RulePlanned planned = RulePlanned::yes;
  std::string_view what;         ///< a sentence: what the version does
  std::string_view before;       ///< the same of what came before it
  std::string_view source;       ///< change, file, or release notes
  std::string_view setting{};    ///< the Settings' key, of RulePlanned::setting
  std::string_view unsettled{};  ///< what could not be read; empty: settled
  int maybe_since = 0;           ///< the oldest version that may have it already; 0: `since`
};

/// All of them, by area and then by version.
[[nodiscard]] std::span<const VersionRule> version_rules();
[[nodiscard]] const VersionRule& version_rule(RuleId id);

/// The rule of that name; null: there is none.
[[nodiscard]] const VersionRule* find_rule(std::string_view name);

/// "2.13~RULE": `pytorch` without that rule.
[[nodiscard]] std::string without_rule(std::string_view pytorch, const VersionRule& rule);

/// Whether `pytorch` has the rule. Of a text that is no version: whether kCheckedPyTorch has it.
[[nodiscard]] bool holds(RuleId id, std::string_view pytorch);

/// The rules that one of the two versions has and the other does not, in version_rules()'s order.
[[nodiscard]] std::vector<const VersionRule*> differing_rules(std::string_view pytorch, std::string_view other);

/// The rules whose absence from `pytorch` is not certain: version between maybe_since and since.
[[nodiscard]] std::vector<const VersionRule*> unsettled_rules(std::string_view pytorch);

/// Whether FSDP2's rules of that version were held against recordings (docs/versions.md: its Python functions
/// over 2.11, whose allocator they ran on).
[[nodiscard]] bool fsdp_rules_recorded(std::string_view pytorch);

}  // namespace foreshard
