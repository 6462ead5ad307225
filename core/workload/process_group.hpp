// Process groups of the user's program, beside FSDP2's: tensor, context and sequence parallelism, a metric's
// all-reduce. Their collectives are ops of the program: they stay where they are when FSDP2's settings change, and
// contend with FSDP2's on the GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/base/quantity.hpp"
#include "core/device/collective.hpp"

namespace foreshard {

struct ProcessGroup {
  std::string name;          ///< pg_desc: "mesh_tp" of a DeviceMesh dimension, "default_pg"
  std::uint32_t ranks = 1;   ///< its size
  std::uint32_t stride = 1;  ///< between the global ranks of neighbours; an inner mesh dimension has 1

  /// How many members share a node of `gpus`.
  [[nodiscard]] std::uint32_t ranks_per_node(std::uint32_t gpus) const {
    return std::clamp((gpus + stride - 1) / std::max(stride, 1U), 1U, std::max(ranks, 1U));
  }
  bool operator==(const ProcessGroup&) const = default;
};

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
