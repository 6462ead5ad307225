#include "sim/predict/machine_use.hpp"

#include <algorithm>

namespace foreshard::sim {
namespace {

template <class T>
void add(std::vector<T>& list, T value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

void add_kernels(const Workload& workload, MachineUse& use) {
  for (const Op& op : workload.steps.back().ops) {
    if (op.kind != OpKind::kernel || op.kernel.work.count != 0) continue;
    if (op.kernel.math.kind == KernelMath::Kind::bytes) {
      if (op.kernel.bytes > 0) add(use.kernels, op.kernel.kernel_class);
      continue;
    }
    add(use.dtypes, op.kernel.math.dtype);
    add(use.kernels, op.kernel.kernel_class);
  }
}

}  // namespace

MachineUse machine_use(const Workload& workload, const Settings& settings, const Run& run) {
  MachineUse use;
  use.nodes = settings.nodes;
  use.ranks.push_back(settings.shard_ranks());
  if (settings.expert_parallel > 1 && settings.expert_parallel < settings.shard_ranks())
    add(use.ranks, settings.shard_ranks() / settings.expert_parallel);
  if (settings.replicate > 1) use.ranks.push_back(settings.replicate);
  for (const ProcessGroup& group : workload.process_groups)
    add(use.ranks, on_mesh(group, workload.settings, settings).ranks);
  for (const DeviceOpRecord& op : run.device_ops) {
    if (op.kind != DeviceOpRecord::Kind::collective) continue;
    use.largest_collective = std::max(use.largest_collective, op.bytes);
    add(use.transports, op.transport);
  }
  if (!workload.steps.empty()) add_kernels(workload, use);
  return use;
}

}  // namespace foreshard::sim
