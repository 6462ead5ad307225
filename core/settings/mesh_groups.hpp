// The groups of init_device_mesh's dimensions: how many ranks, how many of them a node, how far apart.
//
// Who: core/step makes its communicators of them; `foreshard collectives` prices collectives among them. Pure. Members
// are core/step/rank_mesh.hpp's.
#pragma once

#include <cstdint>

#include "core/device/device.hpp"
#include "core/settings/settings.hpp"

namespace foreshard {

/// The mesh's shard dimension, all ranks of plain FSDP. Without members.
[[nodiscard]] CommunicatorOptions shard_group(const Settings& settings);

/// The part of the shard dimension that experts are sharded over, of ranks expert_parallel apart. Without members.
[[nodiscard]] CommunicatorOptions expert_shard_group(const Settings& settings);

/// The mesh's replicate dimension (HSDP). Without members.
[[nodiscard]] CommunicatorOptions replicate_group(const Settings& settings);

/// The `ranks` ranks that keep a unit together after forward (an int reshard_after_forward). Without members.
[[nodiscard]] CommunicatorOptions post_forward_group(const Settings& settings, std::uint32_t ranks);

/// Nodes between neighbours of a group whose global ranks are `rank_stride` apart, at least 1.
[[nodiscard]] std::uint32_t node_stride(const Settings& settings, std::uint32_t rank_stride);

/// GPUs of a node, of the mesh's dimensions outside the tensor-parallel one, at least 1.
[[nodiscard]] std::uint32_t outer_ranks_per_node(const Settings& settings);

}  // namespace foreshard
