// The process groups that a profiler trace names, as a workload has them.
//
// Who: traces/import, and infer.cpp for the mesh. Pure, deterministic, thread-safe; nothing fails: a communicator whose
// ranks cannot be read has stride 1.
#pragma once

#include <span>
#include <vector>

#include "core/workload/process_group.hpp"
#include "traces/pytorch/profiler_trace.hpp"

namespace foreshard::traces {

/// By CommunicatorId. The stride is that of the first two members: PyTorch cuts long lists of ranks
/// ("[0, 1, 2, 3, ...]"; torch/csrc/distributed/c10d/ParamCommsUtils.cpp).
[[nodiscard]] std::vector<ProcessGroup> process_groups_of(std::span<const TraceCommunicator> communicators);

}  // namespace foreshard::traces
