#include "sim/collectives/symmetric.hpp"

#include <fmt/format.h>

#include "sim/collectives/symmetric_kernel.hpp"
#include "sim/collectives/symmetric_loops.hpp"

namespace foreshard::sim {
namespace {

std::string_view word(const SymmetricKernel& kernel, const Group& group) {
  if (kernel.ll) return kernel.by_switch ? "LL by multicast" : "LL";
  if (kernel.by_switch) return group.gathers() ? "multicast stores" : "sums in the switch";
  return group.gathers() ? "stores to peers, no multicast" : "loads from peers, no multicast";
}

double hbm_bytes(const SymmetricKernel& kernel, const Group& group) {
  const double wire = group.wire();
  if (!group.gathers()) return wire + group.shard();
  return kernel.by_switch ? wire + group.shard() : 2 * wire;
}

/// Peers read this rank's whole buffer: what its L2 holds of a small one comes faster.
double load_rate(const MachineProfile& machine, const Group& group) {
  const bool in_l2 = group.bytes <= static_cast<double>(machine.peaks.l2);
  return machine.links.symmetric_load * (in_l2 ? machine.links.symmetric_load_l2 : 1);
}

double kernel_us(const MachineProfile& machine, const SymmetricKernel& kernel, const Group& group) {
  const NcclConstants& nccl = machine.nccl;
  const Links& links = machine.links;
  if (kernel.ll) return symmetric_model_us(nccl, kernel, group, 1);
  if (kernel.by_switch) return symmetric_model_us(nccl, kernel, group, links.symmetric_switch / nccl.symmetric_most);
  SymmetricLoops loops{!group.gathers(), group.shard(), group.ranks, kernel.ctas};
  loops.element = group.gathers() ? 1 : group.element;
  loops.rate = group.gathers() ? links.symmetric_store * symmetric_bandwidth(nccl, kernel, group) / nccl.symmetric_most
                               : load_rate(machine, group);
  loops.warp_rate = nccl.symmetric_channel / kSymmetricWarps;
  loops.wait = nccl.symmetric_wait;
  return nccl.symmetric_latency + symmetric_loops_us(loops);
}

}  // namespace

Estimate symmetric(const MachineProfile& machine, const MachineProfile& seen, const Group& group) {
  const SymmetricKernel kernel = choose_symmetric_kernel(seen, group);
  Estimate out;
  out.us = kernel_us(machine, kernel, group);
  out.uses = CollectiveResource::symmetric;
  out.sms = kernel.ctas;
  out.hbm = hbm_bytes(kernel, group);
  out.link = group.gathers() && kernel.by_switch ? group.shard() : group.wire();
  out.path = fmt::format("NCCL symmetric kernel, {}, {} CTAs{}", word(kernel, group), kernel.ctas,
                         group.gathers() ? "" : "; adds by SUM (set_force_sum_reduction_for_comms)");
  return out;
}

}  // namespace foreshard::sim
