#include "sim/predict/model_flops.hpp"

#include <algorithm>

#include "core/kernel/kernel_cost.hpp"

namespace foreshard::sim {
namespace {

struct StepFlops {
  double forward = 0;
  double backward = 0;
  double float32 = 0;  ///< of both
  double float16 = 0;
};

StepFlops flops_of(const Program& program) {
  StepFlops out;
  bool backward = false;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::hook && op.hook == Hook::backward_begin) backward = true;
    if (op.kind == OpKind::hook && op.hook == Hook::backward_end) backward = false;
    if (op.kind != OpKind::kernel) continue;
    const double count = flops(op.kernel.math);
    (backward ? out.backward : out.forward) += count;
    if (op.kernel.math.dtype == DType::float32) out.float32 += count;
    if (op.kernel.math.dtype == DType::float16) out.float16 += count;
  }
  return out;
}

bool has_frozen(const Workload& workload) {
  for (const Unit& unit : workload.units)
    for (const Parameter& parameter : unit.parameters)
      if (!parameter.requires_grad) return true;
  return false;
}

}  // namespace

double model_flops(const Workload& workload) {
  if (workload.steps.empty()) return 0;
  if (workload.settings.checkpoint != Checkpoint::none && has_frozen(workload)) return 0;
  const StepFlops found = flops_of(workload.steps.back());
  return found.forward + std::min(found.backward, 2 * found.forward);
}

DType model_flops_dtype(const Workload& workload) {
  if (workload.steps.empty()) return DType::bfloat16;
  const StepFlops found = flops_of(workload.steps.back());
  const double half = (found.forward + found.backward) / 2;
  if (found.float32 > half) return DType::float32;
  return found.float16 > half ? DType::float16 : DType::bfloat16;
}

}  // namespace foreshard::sim
