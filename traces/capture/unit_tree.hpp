// How the units of a model lie in one another, by their names: in which order Module's walks come to their parameters.
//
// Who: shard_matcher.hpp. Pure, deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/workload/unit.hpp"

namespace foreshard::traces {

/// Two walks over the same modules (torch/nn/modules/module.py).
enum class ModuleWalk : std::uint8_t {
  apply,       ///< Module._apply (to_empty, cuda): children first, as fully_shard flattens its parameters
  parameters,  ///< Module.parameters: a module's own parameters before its children's
};

/// Parameters that a walk meets in this order. Where one has no bytes on this rank it is left out.
using ParameterList = std::vector<ParameterId>;

/// One unit.
struct UnitNode {
  ParameterList own;
  std::vector<std::size_t> inside;  ///< nodes whose modules lie in its: a walk goes through each in one piece, in order
  std::vector<ParameterList>
      lists;  ///< of units of several modules in its: others may come between those, not of lists
};

/// By node, the root's first. `shard_bytes`: by ParameterId. `zero_grad_order`: units in the order in which a recorded
/// zero_grad dropped their gradients, which is that of neighbours in the walk; without it they go as `units` does.
[[nodiscard]] std::vector<UnitNode> unit_tree(const std::vector<Unit>& units, std::span<const Bytes> shard_bytes,
                                              ModuleWalk walk, std::span<const UnitId> zero_grad_order);

}  // namespace foreshard::traces
