#include "sim/collectives/symmetric_kernel.hpp"

#include <cmath>

namespace foreshard::sim {
namespace {

double most_ctas(const SymmetricKernel& kernel, const Group& group) {
  constexpr double kMaxCtas = 64;  // sym_kernels.cc: ncclSymkMaxBlocks
  return kernel.by_switch && !kernel.ll ? std::ceil(16 / group.ranks) : kMaxCtas;
}

double bus_bytes(const SymmetricKernel& kernel, const Group& group) {
  return kernel.ll ? 9 * group.bytes : (group.ranks - 1) * group.shard();
}

/// The fewest CTAs within 2.5 % of the time of all.
SymmetricKernel with_ctas(const NcclConstants& nccl, SymmetricKernel kernel, const Group& group) {
  const double most = most_ctas(kernel, group);
  kernel.ctas = most;
  const double best = symmetric_model_us(nccl, kernel, group, 1);
  for (kernel.ctas = 1; kernel.ctas < most; ++kernel.ctas)
    if (symmetric_model_us(nccl, kernel, group, 1) <= best * 1.025) break;
  return kernel;
}

}  // namespace

double symmetric_bandwidth(const NcclConstants& nccl, const SymmetricKernel& kernel, const Group& group) {
  const double gain = kernel.by_switch ? (kernel.ll ? 1.1 : 0.55 * group.ranks) : 1;
  const double most = nccl.symmetric_most;
  const double one = nccl.symmetric_channel;
  return most - one * std::log1p(std::expm1(most / one) * std::exp(-kernel.ctas * gain));
}

double symmetric_model_us(const NcclConstants& nccl, const SymmetricKernel& kernel, const Group& group, double share) {
  // Latency, then ln(1 + exp(x − 1)): nothing for few bytes, x − 1 for many.
  const double x = transfer_us(bus_bytes(kernel, group), symmetric_bandwidth(nccl, kernel, group) * share) - 1;
  const double soft = x > 30 ? x : std::log1p(std::exp(x));
  return (kernel.ll ? nccl.symmetric_ll_latency : nccl.symmetric_latency) + soft;
}

SymmetricKernel choose_symmetric_kernel(const MachineProfile& machine, const Group& group) {
  const NcclConstants& nccl = machine.nccl;
  const bool by_switch = machine.links.nvls;
  SymmetricKernel chosen;
  double least = 0;
  for (const SymmetricKernel& one :
       {SymmetricKernel{true, by_switch && group.gathers()}, SymmetricKernel{false, by_switch}}) {
    const SymmetricKernel kernel = with_ctas(nccl, one, group);
    // The kernel that minimises time, 2.5 % dearer for each CTA.
    const double weight = symmetric_model_us(nccl, kernel, group, 1) * (1 + 0.025 * kernel.ctas);
    if (chosen.ctas > 0 && weight >= least) continue;
    least = weight;
    chosen = kernel;
  }
  // CTAs get whole cells of 1 KiB, all as many: the last ones may get none (symmetric_sched.cc, cellPerChannel).
  constexpr double kCell = 1024;
  const double cells = std::max(1.0, std::ceil(group.shard() / kCell));
  chosen.ctas = std::ceil(cells / std::ceil(cells / chosen.ctas));
  return chosen;
}

}  // namespace foreshard::sim
