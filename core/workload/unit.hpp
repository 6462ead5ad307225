// FSDP units and their parameters, in the order in which fully_shard flattens them
// (fsdp2 semantics 1.1: children before the module itself).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"

namespace foreshard {

struct Parameter {
  std::string name;  ///< fully qualified, as in named_parameters()
  std::vector<std::int64_t> shape;
  DType dtype = DType::float32;
  /// false: frozen. It is gathered as the others are, never reduced, and the optimizer has no state of it.
  bool requires_grad = true;
  /// It holds the experts of one expert-parallel rank: `shape` is that part's, and FSDP2 shards it over the ranks that
  /// have the same experts (Settings::expert_parallel).
  bool expert_parallel = false;
  /// A weight that is gathered in float8_e4m3fn, by its scale (torchao's WeightWithDynamicFloat8CastTensor). Its
  /// gradient is of the compute dtype as the others' are.
  bool gathered_in_float8 = false;
  /// Of fully_shard's shard_placement_fn, one of `shape`'s; 0: its default. What FSDP2 cuts it along: shard_dim() of
  /// core/shard/layout.hpp.
  std::uint32_t shard_dim = 0;

  [[nodiscard]] std::uint64_t numel() const {
    std::uint64_t n = 1;
    for (std::int64_t d : shape) n *= static_cast<std::uint64_t>(d);
    return n;
  }
  bool operator==(const Parameter&) const = default;
};

/// One `fully_shard` call. `name` is the annotation's: empty for the root, the members' names joined
/// by ", " for a list of modules.
struct Unit {
  std::string name;
  std::vector<Parameter> parameters;
  /// How many of the parameters, in order, each FSDPParamGroup has; empty: one group of all. PyTorch 2.12 makes a group
  /// for each mesh that a unit's parameters are sharded over.
  std::vector<std::uint32_t> groups = {};

  /// Whether its parameters are experts of one expert-parallel rank, and nothing else.
  [[nodiscard]] bool of_experts() const {
    return !parameters.empty() &&
           std::all_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.expert_parallel; });
  }
  bool operator==(const Unit&) const = default;
};

}  // namespace foreshard
