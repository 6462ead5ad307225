// Sharding of parameters over a group of ranks (fsdp2 semantics 1.2, 1.3; FSDPParam._init_sharded_param, PyTorch
// 2.11): torch.chunk's rows, padded to equal shards. Along another dimension than the first all chunks are equal.
//
// Under expert parallelism the mesh's shard dimension is (the rest, expert parallel), the second innermost, and
// parameters of experts are sharded over the first alone (torchtitan's efsdp mesh).
//
// Pure functions of shapes. Sizes are element counts (numel) unless the name says bytes.
#pragma once

#include <cstdint>

#include "core/settings/settings.hpp"
#include "core/workload/unit.hpp"

namespace foreshard {

/// One rank's place in the mesh's shard dimension.
struct ShardGroup {
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
  std::uint32_t expert_parallel = 1;  ///< divides `ranks`

  /// The part of it that `parameter` is sharded over.
  [[nodiscard]] ShardGroup of(const Parameter& parameter) const {
    if (!parameter.expert_parallel) return {ranks, rank};
    return {ranks / expert_parallel, rank / expert_parallel};
  }
};

/// The shard dimension of a run's mesh, and the place in it of `rank`.
[[nodiscard]] inline ShardGroup shard_dimension(const Settings& settings, std::uint32_t rank = 0) {
  return {settings.shard_ranks(), rank, settings.expert_parallel};
}

/// The dimension that FSDP2 cuts the parameter along: shard_placement_fn's, and of experts of which there are fewer
/// than ranks the second, as torchtitan has it (apply_fsdp in distributed/fsdp.py).
[[nodiscard]] std::uint32_t shard_dim(const Parameter& parameter, ShardGroup group);

/// The size of that dimension.
[[nodiscard]] std::uint64_t sharded_size(const Parameter& parameter, ShardGroup group);

/// What every rank's padded shard has of that dimension: ceil(its size / ranks of its group).
[[nodiscard]] std::uint64_t padded_rows(const Parameter& parameter, ShardGroup group);

/// Elements of the padded shard: the same on every rank; what lives on the device and is gathered.
[[nodiscard]] std::uint64_t padded_shard_numel(const Parameter& parameter, ShardGroup group);

/// Elements of this rank's unpadded shard: what optimizer states are made like. May be 0.
[[nodiscard]] std::uint64_t local_shard_numel(const Parameter& parameter, ShardGroup group);

/// Elements of the unsharded storage: ranks of its group × padded shard, ≥ numel().
[[nodiscard]] std::uint64_t unsharded_numel(const Parameter& parameter, ShardGroup group);

}  // namespace foreshard
