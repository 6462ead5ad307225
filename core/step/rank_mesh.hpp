// Where one rank stands in the mesh of a run: its shard group, the group it is replicated over, and the smaller groups
// of an int reshard. The mesh is (replicate, shard, tensor parallel), the last dimension innermost, as init_device_mesh
// lays ranks out. Experts are sharded over a part of the shard dimension (core/shard/layout.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "core/fsdp/fsdp_op.hpp"
#include "core/fsdp/unit_plan.hpp"
#include "core/settings/settings.hpp"
#include "core/shard/layout.hpp"

namespace foreshard {

class RankMesh {
 public:
  /// `plans` must outlive this. `rank`: global.
  RankMesh(const Settings& settings, const std::vector<UnitPlan>& plans, std::uint32_t rank)
      : plans_(plans),
        replicate_(settings.replicate),
        tensor_parallel_(settings.tensor_parallel),
        rank_(rank),
        shard_(shard_dimension(settings, rank / settings.tensor_parallel % settings.shard_ranks())) {}

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] ShardGroup shard() const { return shard_; }
  /// The ranks that `group` is sharded over: those of the shard dimension, or of the experts' part of it. A unit
  /// without parameters has the former.
  [[nodiscard]] ShardGroup shard(ParamGroupId group) const {
    const auto& groups = plans_[group.unit.value].groups;
    if (group.index >= groups.size()) return {shard_.ranks, shard_.rank};
    const std::uint32_t ranks = groups[group.index].shard_ranks;
    return {ranks, shard_.rank / (shard_.ranks / ranks)};
  }
  /// The size of the communicator that `group` uses in this role.
  [[nodiscard]] std::uint32_t ranks(CommunicatorRole role, ParamGroupId group) const {
    if (role == CommunicatorRole::replicate) return replicate_;
    return role == CommunicatorRole::post_forward ? plans_[group.unit.value].reshard.group_size : shard(group).ranks;
  }
  /// This rank's place in the shard group, or in the unit's post-forward group.
  [[nodiscard]] std::uint32_t place(CommunicatorRole role, ParamGroupId group) const {
    return shard(group).rank % ranks(role, group);
  }
  /// Global ranks of the communicator, in its order.
  [[nodiscard]] std::vector<std::uint32_t> members(CommunicatorRole role, ParamGroupId group) const {
    std::vector<std::uint32_t> out;
    const std::uint32_t count = ranks(role, group);
    const ShardGroup own = shard(group);
    const std::uint32_t stride = shard_.ranks / own.ranks * tensor_parallel_;
    const std::uint32_t first = rank_ - own.rank * stride;  // of this rank's shard group
    const std::uint32_t begin = role == CommunicatorRole::post_forward ? own.rank / count * count : 0;
    for (std::uint32_t r = 0; r < count; ++r)
      out.push_back(role == CommunicatorRole::replicate
                        ? r * shard_.ranks * tensor_parallel_ + rank_ % (shard_.ranks * tensor_parallel_)
                        : first + (begin + r) * stride);
    return out;
  }

 private:
  const std::vector<UnitPlan>& plans_;
  std::uint32_t replicate_;
  std::uint32_t tensor_parallel_;
  std::uint32_t rank_;
  ShardGroup shard_;
};

}  // namespace foreshard
