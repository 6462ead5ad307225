// What differs between PyTorch versions in FSDP2's schedule (fsdp2 semantics 10). As
// core/allocator/allocator_rules.hpp: one plain value, made of core/settings/version_rules.hpp, which has each rule's
// source, so that core/fsdp asks a rule and never a version number.
//
// A rule is added as a row of version_rules.cpp, a field here and the line in fsdp_rules() that sets it.
#pragma once

#include <cstdint>
#include <string_view>

namespace foreshard {

/// Defaults are those of kFsdpSchedule, 2.11.
struct FsdpRules {
  /// fully_shard(root, reshard_after_forward=True) is honoured (2.8). Before, lazy_init keeps the root's parameters
  /// unsharded after forward whatever was asked.
  bool root_reshards = true;
  /// The reduce-scatter inputs before it are waited for and freed also by a group that has nothing to reduce, ahead of
  /// its early return (2.12). Before, only a group that reduces frees them.
  bool frees_input_before_idle_group = false;
  /// Up to Settings::reduce_scatter_max_input_buffers reduce-scatter inputs stay in flight (2.13). Before, one.
  bool keeps_inputs_in_flight = false;
  /// The end of backward waits for the last post-reduce event of each stream (2.13). Before, for each group's, and
  /// under HSDP for each all-reduce's as well.
  bool waits_once_a_stream = false;
  /// The root's post-forward reshards a list unit of which not all modules ran, and backward gathers it again (2.13).
  /// Before, its parameters stay from forward to its post-backward.
  bool completes_partial_units = false;
  /// Forward's wait_for_unshard frees the previous group's all-gather block before its own copy-out (main). Before, as
  /// it returns.
  bool frees_gather_first = false;
  /// A group's gradients are freed before the reduce-scatter's output is allocated (main). Before, a loop variable of
  /// foreach_reduce keeps the last one until it returns.
  bool frees_gradients_first = false;
  /// The end of backward frees the all-gather's block that a forward inside backward left, as of experts in a
  /// checkpointed block (main). Before, the next forward does, behind its first copy-out.
  bool frees_gather_after_backward = false;
  /// Whether it is kept: a shard group of one rank has no such loop.
  [[nodiscard]] bool keeps_last_gradient(std::uint32_t shard_ranks) const {
    return shard_ranks > 1 && !frees_gradients_first;
  }

  bool operator==(const FsdpRules&) const = default;
};

/// Those of a version that kKnownPyTorch has; of any other text those of kFsdpSchedule.
[[nodiscard]] FsdpRules fsdp_rules(std::string_view pytorch);

}  // namespace foreshard
