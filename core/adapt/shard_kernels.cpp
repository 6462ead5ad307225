#include "core/adapt/shard_kernels.hpp"

#include <vector>

#include "core/kernel/kernel_name.hpp"

namespace foreshard {
namespace {

/// Calls `take` with each of them until it returns true; whether it did.
template <class Programs, class Take>
bool each(Programs& steps, const Labels& labels, Take take) {
  for (auto& step : steps) {
    bool between = false;
    for (auto& op : step.ops) {
      if (op.kind == OpKind::hook && op.hook == Hook::backward_end) between = true;
      if (op.kind == OpKind::hook && (op.hook == Hook::microbatch_begin || op.hook == Hook::optimizer_begin))
        between = false;
      if (between && op.kind == OpKind::kernel && op.kernel.work.count > 0 && op.kernel.label.valid() &&
          is_foreach_kernel(labels.text(op.kernel.label)) && take(op))
        return true;
    }
  }
  return false;
}

}  // namespace

bool has_shard_kernels(const Workload& workload) {
  return each(workload.steps, workload.labels, [](const Op&) { return true; });
}

void scale_shard_kernels(Workload& workload, double factor) {
  (void)each(workload.steps, workload.labels, [factor](Op& op) {
    op.kernel.work = op.kernel.work.scaled(factor);
    return false;
  });
}

}  // namespace foreshard
