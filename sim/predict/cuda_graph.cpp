#include "sim/predict/cuda_graph.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/step/graph_schedule.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::sim {
namespace {

bool waits_in(const Program& program) {
  const CapturedOps passes = captured_ops(program);
  const auto begin = program.ops.begin();
  return std::any_of(begin + static_cast<std::ptrdiff_t>(passes.begin), begin + static_cast<std::ptrdiff_t>(passes.end),
                     [](const Op& op) { return op.kind == OpKind::synchronize; });
}

/// Whether foreshard's own program makes data between the begin of forward and the end of backward: that of every
/// microbatch but the first. Its kernel has the step's number among its arguments.
bool makes_data_in_passes(const Program& program) {
  const CapturedOps passes = captured_ops(program);
  const auto begin = program.ops.begin();
  return std::any_of(begin + static_cast<std::ptrdiff_t>(passes.begin), begin + static_cast<std::ptrdiff_t>(passes.end),
                     [&](const Op& op) {
                       return op.kernel_index < program.kernels.size() &&
                              makes_batch(program.kernels[op.kernel_index].kernel);
                     });
}

}  // namespace

Result<void> check_capturable(const Workload& workload, const Settings& settings) {
  if (!settings.cuda_graph) return {};
  const std::string why = not_capturable(workload, settings);
  if (why.empty()) return {};
  return fail(ErrorKind::usage, fmt::format("forward and backward cannot be captured in a CUDA graph: {}", why),
              "cuda_graph", "take --cuda-graph none");
}

bool waits_in_passes(const Workload& workload) {
  return std::any_of(workload.steps.begin(), workload.steps.end(), waits_in);
}

std::string not_capturable(const Workload& workload, const Settings& settings) {
  if (records_streams(workload, settings))
    return "record_stream: blocks that the capture frees come back behind it, which is not modelled";
  if (settings.offload) return "the host waits for offloaded gradients, which a capture cannot do";
  if (!workload.recorded.empty()) return "its steps differ: each size needs a graph of its own";
  if (workload.steps.empty() || captured_ops(workload.steps.back()).end == 0)
    return "its step has no forward with a backward behind it";
  if (workload.lowering == Lowering::foreshard &&
      std::any_of(workload.steps.begin(), workload.steps.end(), makes_data_in_passes))
    return "the data of later microbatches is made inside of the capture, and replays would repeat it";
  return {};
}

}  // namespace foreshard::sim
