// Process groups of the user's program, beside FSDP2's: tensor, context and sequence parallelism, a metric's
// all-reduce. Their collectives are ops of the program: they stay where they are when FSDP2's settings change, and
// contend with FSDP2's on the GPU.
//
// Who: traces/infer (off a profiler trace), core/models and core/adapt, core/step, which issues them. Plain data and
// pure functions; groups of equal fields are one group.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/base/quantity.hpp"
#include "core/device/collective.hpp"
#include "core/settings/settings.hpp"

namespace foreshard {

struct ProcessGroup {
  std::string name;          ///< pg_desc: "mesh_tp" of a DeviceMesh dimension, "default_pg"
  std::uint32_t ranks = 1;   ///< its size
  std::uint32_t stride = 1;  ///< between the global ranks of neighbours; an inner mesh dimension has 1
  bool of_shards = false;    ///< FSDP2's own shard group: one communicator, so that they run in issue order

  /// How many members share a node of `gpus`.
  [[nodiscard]] std::uint32_t ranks_per_node(std::uint32_t gpus) const {
    return std::clamp((gpus + stride - 1) / std::max(stride, 1U), 1U, std::max(ranks, 1U));
  }
  bool operator==(const ProcessGroup&) const = default;
};

/// The group of a program recorded on one mesh, (replicate, shard, tensor parallel), on another: a group over
/// dimensions of the mesh, over its expert-parallel ranks or over all ranks has their new size and stride; any other
/// stays.
[[nodiscard]] inline ProcessGroup on_mesh(ProcessGroup group, const Settings& recorded, const Settings& wanted) {
  const auto is = [&](std::uint32_t ranks, std::uint32_t stride) {
    return group.ranks == ranks && group.stride == stride;
  };
  const std::uint32_t inner = recorded.tensor_parallel;
  if (recorded.expert_parallel > 1 && !group.of_shards && is(recorded.expert_parallel, inner)) {
    group.ranks = wanted.expert_parallel;
    group.stride = wanted.tensor_parallel;
  } else if (inner > 1 && is(inner, 1)) {
    group.ranks = wanted.tensor_parallel;
  } else if (is(recorded.shard_ranks(), inner)) {
    group.ranks = wanted.shard_ranks();
    group.stride = wanted.tensor_parallel;
  } else if (is(recorded.shard_ranks() * recorded.replicate, inner)) {
    group.ranks = wanted.shard_ranks() * wanted.replicate;
    group.stride = wanted.tensor_parallel;
  } else if (is(recorded.replicate, recorded.shard_ranks() * inner)) {
    group.ranks = wanted.replicate;
    group.stride = wanted.shard_ranks() * wanted.tensor_parallel;
  } else if (is(recorded.world(), 1)) {
    group.ranks = wanted.world();
  }
  return group;
}

/// A collective that the program issues itself. With async_op it waits for the compute stream
/// (ProcessGroupNCCL::syncStream) and runs on its group's own stream, and Work.wait() is an op of its own
/// (OpKind::wait_stream); without, it runs on the compute stream (2.8 and later).
struct UserCollective {
  std::uint32_t group = 0;  ///< index of Workload::process_groups
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes = 0;  ///< as CollectiveWork::bytes
  bool operator==(const UserCollective&) const = default;
};

}  // namespace foreshard
