// Where one rank stands in the mesh of a run: its shard group, the group it is replicated over, and the smaller groups
// of an int reshard. The mesh is (replicate, shard, tensor parallel), the last
// dimension innermost, as init_device_mesh lays ranks out.
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
        shard_{settings.shard_ranks(), rank / settings.tensor_parallel % settings.shard_ranks()} {}

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] ShardGroup shard() const { return shard_; }
  /// The size of the communicator that `unit` uses in this role.
  [[nodiscard]] std::uint32_t ranks(CommunicatorRole role, UnitId unit) const {
    if (role == CommunicatorRole::replicate) return replicate_;
    return role == CommunicatorRole::post_forward ? plans_[unit.value].reshard.group_size : shard_.ranks;
  }
  /// This rank's place in the shard group, or in the unit's post-forward group.
  [[nodiscard]] std::uint32_t place(CommunicatorRole role, UnitId unit) const {
    return shard_.rank % ranks(role, unit);
  }
  /// Global ranks of the communicator, in its order.
  [[nodiscard]] std::vector<std::uint32_t> members(CommunicatorRole role, UnitId unit) const {
    std::vector<std::uint32_t> out;
    const std::uint32_t count = ranks(role, unit);
    const std::uint32_t first = rank_ - shard_.rank * tensor_parallel_;  // of this rank's shard group
    const std::uint32_t begin = role == CommunicatorRole::post_forward ? shard_.rank / count * count : 0;
    for (std::uint32_t r = 0; r < count; ++r)
      out.push_back(role == CommunicatorRole::replicate
                        ? r * shard_.ranks * tensor_parallel_ + rank_ % (shard_.ranks * tensor_parallel_)
                        : first + (begin + r) * tensor_parallel_);
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
