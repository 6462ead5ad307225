#include "sim/collectives/symmetric.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace foreshard::sim {
namespace {

struct Kernel {
  bool ll = false;         ///< flags sent next to the data: 9 bytes for 8, low latency
  bool by_switch = false;  ///< multicast or in-switch sum
};

double most_ctas(const Kernel& kernel, const Group& group) {
  constexpr double kMaxCtas = 64;  // sym_kernels.cc: ncclSymkMaxBlocks
  return kernel.by_switch && !kernel.ll ? std::ceil(16 / group.ranks) : kMaxCtas;
}

/// GB/s of `ctas` CTAs: a smooth minimum of their sum and the links' peak (sym_kernels.cc, queryModel_sym).
double bandwidth(const NcclConstants& nccl, const Kernel& kernel, const Group& group, double ctas) {
  const double gain = kernel.by_switch ? (kernel.ll ? 1.1 : 0.55 * group.ranks) : 1;
  const double most = nccl.symmetric_most;
  const double one = nccl.symmetric_channel;
  return most - one * std::log1p(std::expm1(most / one) * std::exp(-ctas * gain));
}

double bus_bytes(const Kernel& kernel, const Group& group) {
  return kernel.ll ? 9 * group.bytes : (group.ranks - 1) * group.shard();
}

/// Latency, then ln(1 + exp(x − 1)): nothing for few bytes, x − 1 for many.
double model_us(const NcclConstants& nccl, const Kernel& kernel, const Group& group, double gb_s) {
  const double x = transfer_us(bus_bytes(kernel, group), gb_s) - 1;
  const double soft = x > 30 ? x : std::log1p(std::exp(x));
  return (kernel.ll ? nccl.symmetric_ll_latency : nccl.symmetric_latency) + soft;
}

/// The fewest CTAs within 2.5 % of the time of all.
double choose_ctas(const NcclConstants& nccl, const Kernel& kernel, const Group& group) {
  const double most = most_ctas(kernel, group);
  const double best = model_us(nccl, kernel, group, bandwidth(nccl, kernel, group, most));
  double ctas = 1;
  while (ctas < most && model_us(nccl, kernel, group, bandwidth(nccl, kernel, group, ctas)) > best * 1.025) ++ctas;
  return ctas;
}

double machine_rate(const Links& links, const Kernel& kernel, const Group& group) {
  if (kernel.by_switch) return links.symmetric_switch;
  return group.gathers() ? links.symmetric_store : links.symmetric_load;
}

std::string_view word(const Kernel& kernel, const Group& group) {
  if (kernel.ll) return kernel.by_switch ? "LL by multicast" : "LL";
  if (kernel.by_switch) return group.gathers() ? "multicast stores" : "sums in the switch";
  return group.gathers() ? "stores to peers, no multicast" : "loads from peers, no multicast";
}

double hbm_bytes(const Kernel& kernel, const Group& group) {
  const double wire = group.wire();
  if (!group.gathers()) return wire + group.shard();
  return kernel.by_switch ? wire + group.shard() : 2 * wire;
}

struct Chosen {
  Kernel kernel;
  double ctas = 0;
};

Chosen choose(const MachineProfile& machine, const Group& group) {
  const NcclConstants& nccl = machine.nccl;
  const bool by_switch = machine.links.nvls;
  Chosen chosen;
  double least = 0;
  for (const Kernel& kernel : {Kernel{true, by_switch && group.gathers()}, Kernel{false, by_switch}}) {
    const double count = choose_ctas(nccl, kernel, group);
    // The kernel that minimises time, 2.5 % dearer for each CTA.
    const double weight = model_us(nccl, kernel, group, bandwidth(nccl, kernel, group, count)) * (1 + 0.025 * count);
    if (chosen.ctas > 0 && weight >= least) continue;
    least = weight;
    chosen = {kernel, count};
  }
  return chosen;
}

}  // namespace

Estimate symmetric(const MachineProfile& machine, const MachineProfile& seen, const Group& group) {
  const NcclConstants& nccl = machine.nccl;
  const auto [chosen, ctas] = choose(seen, group);
  Estimate out;
  const double share = machine_rate(machine.links, chosen, group) / nccl.symmetric_most;
  out.us = model_us(nccl, chosen, group, bandwidth(nccl, chosen, group, ctas) * (chosen.ll ? 1 : share));
  out.uses = CollectiveResource::symmetric;
  out.sms = ctas;
  out.hbm = hbm_bytes(chosen, group);
  out.link = group.gathers() && chosen.by_switch ? group.shard() : group.wire();
  out.path = fmt::format("NCCL symmetric kernel, {}, {} CTAs{}", word(chosen, group), ctas,
                         group.gathers() ? "" : "; adds by SUM (set_force_sum_reduction_for_comms)");
  return out;
}

}  // namespace foreshard::sim
