// A CUDA graph of forward and backward in a recording: the capture in a memory snapshot, its replays in a profiler
// trace.
//
// Who: import. Pure, deterministic.
//
// A capture's allocations lie in a pool whose id has its first number set (CUDAGraph::capture_begin, caching allocator
// 6.1); the steps that warm it up allocate on its stream (torch.cuda.graph, "Whole-network capture"). Kernels of a
// replay are launched by one cudaGraphLaunch: the profiler gives all of them its correlation, no range of FSDP2, and
// streams of CUDA's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/allocator/snapshot.hpp"
#include "core/run/run.hpp"
#include "core/settings/settings.hpp"
#include "traces/capture/hooks.hpp"

namespace foreshard::traces {

struct RecordedGraph {
  CudaGraph steps;                  ///< complete steps before the capture, and how many of them on its stream
  std::uint64_t stream = 0;         ///< the capture's, as the snapshot names it
  std::int64_t eager_until_us = 0;  ///< where what eager_part() is of ends: with a step before the warm-up or capture
};

/// None: no segment of a capture is there at the end, or no whole step came before it. `hooks` of the snapshot.
[[nodiscard]] std::optional<RecordedGraph> find_graph(const Snapshot& snapshot, const Hooks& hooks);

/// What the snapshot would show without the graph: its eager steps, or where there are none the steps that warm it up,
/// as if they ran on the default stream. Pools of captures are left out.
[[nodiscard]] Snapshot eager_part(const Snapshot& snapshot, const RecordedGraph& graph);

/// Whether the trace shows replays and no FSDP2 step.
[[nodiscard]] bool replays_alone(const Run& trace);

/// Of a trace that replays_alone(): a step from each cudaGraphLaunch to the next, and its kernels on the streams that
/// FSDP2 has for what they do: the compute stream, one for each kind of collective.
void take_replays(Run& trace);

}  // namespace foreshard::traces
