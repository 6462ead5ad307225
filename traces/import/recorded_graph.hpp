// A CUDA graph of forward and backward in a recording: the capture in a memory snapshot, its replays in a profiler
// trace.
//
// Who: import. Pure, deterministic.
//
// A capture's allocations lie in a pool whose id has its first number set (CUDAGraph::capture_begin, caching allocator
// 6.1), or in one of torch.cuda.graph_pool_handle(), which several graphs may share and whose id is as a MemPool's; the
// steps that warm it up allocate on its stream (torch.cuda.graph, "Whole-network capture"). Kernels of a replay are
// launched by one cudaGraphLaunch: the profiler gives all of them its correlation, no range of FSDP2, and streams of
// CUDA's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "core/allocator/snapshot.hpp"
#include "core/run/run.hpp"
#include "core/settings/settings.hpp"
#include "traces/capture/hooks.hpp"

namespace foreshard::traces {

using GraphPoolId = std::pair<std::uint64_t, std::uint64_t>;  ///< SnapshotSegment::pool_id
using GraphPoolIds = std::set<GraphPoolId>;

struct RecordedGraph {
  CudaGraph steps;                  ///< complete steps before the capture, and how many of them on its stream
  std::uint64_t stream = 0;         ///< the capture's, as the snapshot names it
  std::int32_t captured = 0;        ///< the step of the capture, as the hooks number it
  std::int32_t last_captured = 0;   ///< of the last one, where a capture was thrown away or several graphs are made
  GraphPoolIds pools;               ///< of all captures
  std::size_t captures = 0;         ///< steps of the recording that are captures; the first is `captured`
  std::size_t graphs = 1;           ///< of that step, by their pools: forward and backward may be captured apart
  std::int64_t eager_until_us = 0;  ///< where what eager_part() is of ends: with a step before the warm-up or capture
};

/// None: no segment of a capture is there at the end, or no whole step came before it. `hooks` of the snapshot.
[[nodiscard]] std::optional<RecordedGraph> find_graph(const Snapshot& snapshot, const Hooks& hooks);

/// Steps behind the last capture's, which replay it, in place of what find_hooks() made of them: FSDP2 has no ranges
/// there, the optimizer has. Each is from the end of the step before to the end of its optimizer's ranges, as many as
/// the step before the capture has; complete, with the places of the optimizer alone. `ranges`: those of the hooks.
/// Left alone where another step with passes comes behind: another graph's.
void add_replays(const RecordedGraph& graph, std::span<const Range> ranges, Hooks& hooks);

/// What the snapshot would show without the graph: its eager steps, or where there are none the steps that warm it up,
/// as if they ran on the default stream. Pools of captures are left out.
[[nodiscard]] Snapshot eager_part(const Snapshot& snapshot, const RecordedGraph& graph);

/// Whether the trace shows replays and no FSDP2 step.
[[nodiscard]] bool replays_alone(const Run& trace);

/// Of a trace that replays_alone(): a step from its first cudaGraphLaunch to the next one's, and its kernels on the
/// streams that FSDP2 has for what they do: the compute stream, one for each kind of collective. Launches with no
/// Optimizer.step between are of one step (graphs of forward and of backward, or of microbatches); where no range of an
/// optimizer is there each is one, unless ProfilerStep ranges tell.
void take_replays(Run& trace);

}  // namespace foreshard::traces
