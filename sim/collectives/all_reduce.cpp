#include "sim/collectives/all_reduce.hpp"

#include <fmt/format.h>

#include <cmath>

#include "sim/collectives/network_rate.hpp"
#include "sim/collectives/switch_sums.hpp"

namespace foreshard::sim {
namespace {

/// Steps up and down a double binary tree over the nodes.
double tree_steps(const Group& group) {
  return group.one_node() ? 0 : 2 * std::ceil(std::log2(group.nodes));
}

/// Microseconds that leaving leaf switches adds, up and down.
double tree_levels(const MachineProfile& machine, const Group& group) {
  return 2 * network_rate(machine, group, NodePattern::tree).levels * machine.network.level_latency;
}

/// Bytes that one GPU's adapters send: up and down, except at the root and the leaves.
double tree_network(const Group& group) {
  return group.one_node() ? 0 : 2 * group.bytes * (group.nodes - 1) / group.nodes / group.per_node;
}

}  // namespace

Estimate tree(const MachineProfile& machine, const Group& group, Protocol protocol) {
  const NcclConstants& nccl = machine.nccl;
  const auto of = [protocol](const PerProtocol& values) {
    return protocol == Protocol::ll ? values.ll : protocol == Protocol::ll128 ? values.ll128 : values.simple;
  };
  const double channels = group.one_node() ? nccl.channels : machine.network.channels;
  double bus = machine.links.ring;
  if (!group.one_node()) bus = std::min(bus, network_per_gpu(machine, group, NodePattern::tree) * group.per_node);
  // tuning.cc: Simple is held to 0.92 of the bus and a rate a channel, LL to 1/3.8, LL128 to 0.92 and its rate; an
  // all-reduce needs twice the bytes.
  if (protocol == Protocol::ll) bus = std::min(bus / 3.8, nccl.ll_most);
  if (protocol == Protocol::ll128) bus = std::min(bus * nccl.ll128_share, channels * nccl.ll128_channel);
  if (protocol == Protocol::simple) bus = std::min(bus * 0.92, channels * nccl.tree_channel);
  Estimate out;
  out.us = of(nccl.tree_base) + 2 * (group.per_node - 1) * of(machine.links.tree_hop) +
           tree_steps(group) * of(machine.network.hop) + tree_levels(machine, group) +
           transfer_us(2 * group.bytes, bus);
  out.sms = ring_channels(channels, group.bytes, group.ranks, protocol);
  out.hbm = 3.5 * group.wire();
  out.network = tree_network(group);
  out.pattern = NodePattern::tree;
  out.link = group.per_node > 1 ? 2 * group.bytes : 0;
  out.path = fmt::format("NCCL tree, {}, {} channels", word(protocol), out.sms);
  return out;
}

Estimate nvls(const MachineProfile& machine, const Group& group) {
  const Links& links = machine.links;
  Estimate out;
  // Every GPU sends its whole buffer to be added and its share of the sum to be multicast.
  out.link = group.bytes * (1 + 1 / group.per_node);
  out.network = tree_network(group);
  out.pattern = NodePattern::tree;
  const double inside = transfer_us(out.link, links.nvls_bandwidth);
  const double outside =
      group.one_node() ? 0 : transfer_us(out.network, network_per_gpu(machine, group, NodePattern::tree));
  const double steps = (tree_steps(group) * machine.network.hop.simple + tree_levels(machine, group)) *
                       machine.network.lengthening_simple;
  out.us = machine.nccl.nvls_latency + steps + std::max(inside, outside) + stall_us(links.nvls_stall, group.wire());
  out.sms = machine.nccl.nvls_channels;
  out.hbm = 2 * group.bytes;
  out.path = fmt::format("NCCL {}, {} channels", group.one_node() ? "NVLS" : "NVLS and tree", out.sms);
  return out;
}

AllReduceWay all_reduce_way(const MachineProfile& machine, const Group& group) {
  using Algorithm = AllReduceWay::Algorithm;
  AllReduceWay best{Algorithm::ring, ring_protocol(machine, group)};
  double least = all_reduce(machine, group, best, false).us;
  const auto offer = [&](AllReduceWay way) {
    const double us = all_reduce(machine, group, way, false).us;
    if (us >= least) return;
    best = way;
    least = us;
  };
  if (group.ranks > 2)
    for (const Protocol protocol : {Protocol::ll, Protocol::ll128, Protocol::simple})
      offer({Algorithm::tree, protocol});
  // NVLS reduces inside a node: a group with one rank a node has nothing for it to do.
  if (machine.links.nvls && group.per_node >= 2) offer({Algorithm::nvls, Protocol::simple});
  if (machine.network.sharp && !group.one_node()) offer({Algorithm::sharp, Protocol::simple});
  return best;
}

Estimate all_reduce(const MachineProfile& machine, const Group& group, AllReduceWay way, bool registered) {
  switch (way.algorithm) {
    case AllReduceWay::Algorithm::tree:
      return tree(machine, group, way.protocol);
    case AllReduceWay::Algorithm::nvls:
      return nvls(machine, group);
    case AllReduceWay::Algorithm::sharp:
      return sharp_all_reduce(machine, group);
    case AllReduceWay::Algorithm::ring:
      break;
  }
  return ring(machine, group, way.protocol, registered);
}

}  // namespace foreshard::sim
