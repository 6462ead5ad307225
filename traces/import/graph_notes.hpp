// What the allocations of a recording with a CUDA graph are, where only its eager steps were taken apart.
//
// Who: import. Pure, deterministic; linear in the allocations.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/allocator/snapshot.hpp"
#include "traces/capture/capture.hpp"
#include "traces/capture/hooks.hpp"
#include "traces/import/recorded_graph.hpp"

namespace foreshard::traces {

/// By alloc entry of the whole snapshot; `eager` are those of eager_part(). Steps of the warm-up, the capture and the
/// optimizer of replays run the program of the last eager step, so that their requests are its requests, in its order:
/// matched by size, before the optimizer and from it on. What has no counterpart there is a workspace that the
/// capture's stream makes anew, where an eager step made one of its size, else without note (the generator's state).
[[nodiscard]] std::vector<std::optional<AllocationNote>> graph_notes(const Snapshot& snapshot, const Hooks& hooks,
                                                                     const RecordedGraph& graph,
                                                                     std::span<const AllocationNote> eager);

}  // namespace foreshard::traces
