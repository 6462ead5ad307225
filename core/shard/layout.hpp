// Dim-0 sharding of parameters over a group of ranks (fsdp2 semantics 1.2; FSDPParam._init_sharded_param,
// PyTorch 2.11): torch.chunk's rows, padded to equal shards.
//
// Pure functions of shapes. Sizes are element counts (numel) unless the name says bytes.
#pragma once

#include <cstdint>

#include "core/workload/unit.hpp"

namespace foreshard {

/// One rank's place in a shard group.
struct ShardGroup {
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
};

/// Rows of dim 0 that every rank's padded shard has: ceil(d0 / ranks).
[[nodiscard]] std::uint64_t padded_rows(const Parameter& parameter, ShardGroup group);

/// Elements of the padded shard: the same on every rank; what lives on the device and is gathered.
[[nodiscard]] std::uint64_t padded_shard_numel(const Parameter& parameter, ShardGroup group);

/// Elements of this rank's unpadded shard: what optimizer states are made like. May be 0.
[[nodiscard]] std::uint64_t local_shard_numel(const Parameter& parameter, ShardGroup group);

/// Elements of the unsharded storage: ranks × padded shard, ≥ numel().
[[nodiscard]] std::uint64_t unsharded_numel(const Parameter& parameter, ShardGroup group);

}  // namespace foreshard
