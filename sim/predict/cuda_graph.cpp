#include "sim/predict/cuda_graph.hpp"

#include <algorithm>

#include "core/step/graph_schedule.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::sim {
namespace {

/// Whether the host waits for the GPU between the begin of forward and the end of backward.
bool waits_in_passes(const Program& program) {
  bool inside = false;
  return std::any_of(program.ops.begin(), program.ops.end(), [&](const Op& op) {
    if (op.kind == OpKind::hook && op.hook == Hook::forward_begin) inside = true;
    if (op.kind == OpKind::hook && op.hook == Hook::backward_end) inside = false;
    return inside && op.kind == OpKind::synchronize;
  });
}

}  // namespace

std::string not_capturable(const Workload& workload, const Settings& settings) {
  if (workload.lowering == Lowering::foreshard) return "foreshard's own run issues no CUDA graphs";
  if (records_streams(workload, settings))
    return "record_stream: blocks that the capture frees come back behind it, which is not modelled";
  if (settings.offload) return "the host waits for offloaded gradients, which a capture cannot do";
  if (!workload.recorded.empty()) return "its steps differ: each size needs a graph of its own";
  if (workload.steps.empty() || captured_ops(workload.steps.back()).end == 0)
    return "its step has no forward with a backward behind it";
  if (std::any_of(workload.steps.begin(), workload.steps.end(), waits_in_passes))
    return "the host waits for the GPU in forward or backward, which a capture cannot do";
  return {};
}

}  // namespace foreshard::sim
