// Finds which of the persistent allocations before the first step hold which parameter's shard, by size and order:
// units in order, a unit's parameters together but for those of units in it, the root's own parameters before, between
// or after them all (unit_tree.hpp).
//
// The optimizer's states have such an order too, that of Module.parameters, or each of its param_groups has.
//
// With it a plan can change the shard group's size; and the order found is model.parameters()'.
#pragma once

#include <span>
#include <vector>

#include "core/workload/unit.hpp"
#include "traces/capture/unit_tree.hpp"

namespace foreshard::traces {

struct ShardMatch {
  /// By place in `sizes`: the parameter, or an invalid id for an allocation that is no shard.
  std::vector<ParameterId> parameter;
  std::vector<ParameterId> order;  ///< all parameters, in the order of their allocations
  bool complete = false;           ///< every parameter was found
};

/// `sizes`: persistent allocations in order; `shard_bytes`: by ParameterId. Empty shards are skipped.
[[nodiscard]] ShardMatch match_shards(std::span<const Bytes> sizes, std::span<const Bytes> shard_bytes,
                                      const std::vector<Unit>& units, ModuleWalk walk,
                                      std::span<const UnitId> zero_grad_order = {});

struct GroupMatch {
  std::vector<ParameterId> order;     ///< all parameters, group by group
  std::vector<std::uint32_t> counts;  ///< how many of them each group has
  bool complete = false;              ///< every parameter was found, and every allocation is of one
};

/// The same of an optimizer's allocations in several groups, each of which has some of the parameters in that order. Of
/// parameters with shards of one size the first go to the first group.
[[nodiscard]] GroupMatch match_groups(std::span<const std::vector<Bytes>> groups, std::span<const Bytes> shard_bytes,
                                      const std::vector<Unit>& units);

/// The same by size alone: enough to let sizes follow a mesh, with no claim about the order.
[[nodiscard]] ShardMatch match_shards_in_any_order(std::span<const Bytes> sizes, std::span<const Bytes> shard_bytes);

}  // namespace foreshard::traces
