// Which steps of a run are eager, captured and replayed where forward and backward are one CUDA graph
// (Settings::cuda_graph).
//
// As torch.cuda.graph's users write it (PyTorch's documentation, "Whole-network capture"): eager steps on the current
// stream, warm-up steps on the stream of the capture, the capture, and from then on a replay a step, the first right
// behind the capture, which runs nothing. What stands before forward and behind backward is never captured.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

enum class GraphPhase : std::uint8_t {
  eager = 0,    ///< on the current stream
  warm_up = 1,  ///< eager, its passes and its optimizer on the stream of the capture
  capture = 2,  ///< captured, then replayed
  replay = 3,
};

/// Of step `step`, from 0. `warm`: the run begins with the capture, as one that long trains.
[[nodiscard]] inline GraphPhase graph_phase(const Settings& settings, bool warm, std::int32_t step) {
  if (!settings.cuda_graph || step < 0) return GraphPhase::eager;
  const auto captured = warm ? 0 : static_cast<std::int32_t>(settings.cuda_graph->before_capture());
  if (step >= captured) return step == captured ? GraphPhase::capture : GraphPhase::replay;
  return step < static_cast<std::int32_t>(settings.cuda_graph->eager_steps) ? GraphPhase::eager : GraphPhase::warm_up;
}

/// Steps before the first replay that others follow, all of them without a graph's steady time.
[[nodiscard]] inline std::int32_t steps_before_replay(const Settings& settings) {
  return settings.cuda_graph ? static_cast<std::int32_t>(settings.cuda_graph->before_capture()) : 0;
}

/// Ops of a step's program that are captured: from the first forward to the end of the last backward. Empty where there
/// is no backward.
struct CapturedOps {
  std::size_t begin = 0;
  std::size_t end = 0;
};
[[nodiscard]] inline CapturedOps captured_ops(const Program& program) {
  const auto is = [](Hook hook) { return [hook](const Op& op) { return op.kind == OpKind::hook && op.hook == hook; }; };
  const auto& ops = program.ops;
  const auto first = std::find_if(ops.begin(), ops.end(), is(Hook::forward_begin));
  const auto last = std::find_if(ops.rbegin(), ops.rend(), is(Hook::backward_end));
  if (first == ops.end() || last == ops.rend()) return {};
  return {static_cast<std::size_t>(first - ops.begin()), static_cast<std::size_t>(last.base() - ops.begin())};
}

}  // namespace foreshard
