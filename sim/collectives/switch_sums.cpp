#include "sim/collectives/switch_sums.hpp"

#include <fmt/format.h>

#include "sim/collectives/network_rate.hpp"
#include "sim/collectives/ring.hpp"

namespace foreshard::sim {
namespace {

/// What a collective moves on behalf of one GPU, in the busier direction.
struct Moved {
  double network = 0;
  double by_nvls = 0;    ///< over NVLink, where the NVSwitch adds and multicasts …
  double by_direct = 0;  ///< … and where GPUs exchange parts
  double direct_efficiency = 1;
};

Estimate priced(const MachineProfile& machine, const Group& group, const Moved& moved) {
  const Network& network = machine.network;
  const NetworkRate reached = network_rate(machine, group, NodePattern::aggregation);
  Estimate out;
  out.network = moved.network;
  out.pattern = NodePattern::aggregation;
  const double adapters = rail_bandwidth(machine) / network.efficiency * network.sharp_efficiency;
  const double outside = transfer_us(out.network, adapters * reached.rate);
  const double levels = 2 * reached.levels * network.level_latency;
  if (machine.links.nvls && group.per_node >= 2) {
    out.link = moved.by_nvls;
    out.us = machine.nccl.nvls_latency + (network.sharp_hop + levels) * network.lengthening_simple +
             std::max(transfer_us(out.link, machine.links.nvls_bandwidth), outside) +
             stall_us(machine.links.nvls_stall, group.wire());
    out.sms = machine.nccl.nvls_channels;
    out.hbm = 2 * group.bytes;
    out.sharp = true;
    out.path = fmt::format("NCCL NVLS and SHARP, {} channels", out.sms);
    return out;
  }
  // tuning.cc: all parts come and go at once over NVLink; alone in its node a GPU pays a tree's hop.
  const double peers = group.per_node - 1;
  out.link = moved.by_direct;
  const double hop = peers > 0 ? network.sharp_direct_hop : network.hop.simple;
  const double inside = 2 * (std::min(1.0, peers) * network.sharp_direct_start + network.sharp_direct_peer * peers);
  out.us = inside + (hop + levels) * network.lengthening_simple +
           std::max(transfer_us(out.link, machine.links.ring * moved.direct_efficiency), outside);
  out.sms = ring_channels(network.channels, group.bytes, group.ranks, Protocol::simple);
  out.hbm = 3.5 * group.wire();
  out.sharp = true;
  out.path = fmt::format("NCCL CollNetDirect and SHARP, {} channels", out.sms);
  return out;
}

}  // namespace

Estimate sharp_all_reduce(const MachineProfile& machine, const Group& group) {
  const double peers = group.per_node - 1;
  return priced(machine, group,
                {group.bytes / group.per_node, group.bytes * (1 + 1 / group.per_node),
                 2 * group.bytes * peers / group.per_node, machine.network.sharp_direct_efficiency});
}

bool has_sharp_exchange(const MachineProfile& machine, const Group& group) {
  constexpr double kMaxGpus = 8;
  const bool exchanges = group.gathers() || group.kind == CollectiveKind::reduce_scatter;
  return exchanges && machine.network.sharp && !group.one_node() && group.per_node <= kMaxGpus &&
         machine.network.nics >= machine.links.gpus;
}

Estimate sharp_exchange(const MachineProfile& machine, const Group& group) {
  const double rail = group.bytes / group.per_node;
  // The switch of a node multicasts, or adds, the whole buffer; else each GPU passes its rail on to the others.
  Estimate out =
      priced(machine, group, {rail * (group.nodes - 1) / group.nodes, group.bytes, rail * (group.per_node - 1), 1});
  if (!machine.links.nvls || group.per_node < 2) out.hbm = (group.gathers() ? 4 : 3) * group.wire();
  return out;
}

}  // namespace foreshard::sim
