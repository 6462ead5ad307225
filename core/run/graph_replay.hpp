// What a run with a CUDA graph of its passes has that others lack: steps that replay it, and its pool.
//
// Who: import writes the phase, core/compare and core/explain read both. Pure.
#pragma once

#include <string>
#include <string_view>

#include "core/base/quantity.hpp"
#include "core/run/run.hpp"

namespace foreshard {

/// The phase of a replayed step that its CUDA graph is launched in: forward and backward, which a recording cannot tell
/// apart, since FSDP2's ranges are not in it. Replays of a plan have forward and backward.
inline constexpr std::string_view kGraphReplay = "graph replay";

/// The result under which import keeps the second number of a pool's id that captures went into though it is none of
/// their own: torch.cuda.graph_pool_handle()'s.
inline constexpr const char* kGraphPoolHandle = "graph_pool_handle";

/// What the pools of CUDA graphs hold at the end, allocated or not: every replay writes all of it, and memory_stats()
/// counts little of it as allocated. A capture's own pool has the first number of its id set, a MemPool and a pool of
/// torch.cuda.graph_pool_handle() the second (caching allocator 6.1).
[[nodiscard]] inline Bytes graph_pool_bytes(const Run& run) {
  const auto handle = run.results.find(kGraphPoolHandle);
  Bytes bytes = 0;
  for (const SnapshotSegment& segment : run.segments)
    if (segment.pool_id.first != 0 ||
        (handle != run.results.end() && std::to_string(segment.pool_id.second) == handle->second))
      bytes += segment.total_size;
  return bytes;
}

}  // namespace foreshard
