#include "sim/collectives/point_to_point.hpp"

#include <fmt/format.h>

#include "sim/collectives/network_rate.hpp"
#include "sim/collectives/rails.hpp"

namespace foreshard::sim {
namespace {

// src/enqueue.cc, NCCL_P2P_LL_THRESHOLD: bytes a channel up to which messages go by LL.
constexpr double kLlBytes = 16384;
// The least a channel carries, an eighth of a step, and the most before more channels are taken, 32 steps. A step of
// Simple is NCCL_P2P_NVL_CHUNKSIZE, one of LL an eighth of its buffer (src/init.cc).
constexpr double kSimpleStep = 512 * 1024;
constexpr double kLlStep = 64 * 1024;
// src/graph/paths.cc, ncclTopoGetNchannels: to a peer on another node. Where there is one, to any peer
// (ncclTopoComputeP2pChannels: p2pnChannelsPerPeer is the least of all).
constexpr double kNetChannels = 2;

double power_of_two_up(double value) {
  return std::exp2(std::ceil(std::log2(std::max(value, 1.0))));
}

struct Peers {
  double inside = 0;   ///< of this node, this rank left out
  double outside = 0;  ///< of other nodes
  double bytes = 0;    ///< of each one's message
  double own = 0;      ///< bytes that stay on this rank
  double relayed = 0;  ///< bytes for other nodes that NVLink brings to another rail's adapter first (PXN)
};

NodePattern pattern_of(const Group& group) {
  // The peer of a send is taken for the next rank: the steps of a ring.
  return group.kind == CollectiveKind::all_to_all ? NodePattern::all_to_all : NodePattern::send;
}

Peers peers_of(const MachineProfile& machine, const Group& group) {
  Peers out{group.one_node() ? 1.0 : 0.0, group.one_node() ? 0.0 : 1.0, group.bytes};
  if (group.kind == CollectiveKind::all_to_all)
    out = {group.per_node - 1, group.ranks - group.per_node, group.shard(), group.shard()};
  if (relays_by_pxn(machine))
    out.relayed = out.outside * out.bytes * other_rail_share(machine, group, pattern_of(group));
  return out;
}

/// Channels are shared evenly as long as there are enough; a kernel has no more than the communicator.
double held_channels(double all, const Peers& peers, const P2pSplit& split, const Group& group) {
  const double own = peers.own > 0 ? p2p_split(all, peers.own, group.ranks, group.one_node(), true).channels : 0;
  const double outside = peers.outside * std::min(kNetChannels, split.channels);
  return std::min(power_of_two_up(all), peers.inside * split.channels + own + outside);
}

double node_us(const MachineProfile& machine, const Peers& peers, const P2pSplit& split, double held) {
  const Links& links = machine.links;
  const double relayed = transfer_us(peers.relayed, links.ring);
  if (peers.inside <= 0) return relayed;
  const double carrying = std::min(held, peers.inside * split.channels);
  double rate = smooth_least(links.ring_sharpness, links.ring, carrying * links.p2p_channel);
  if (split.ll) rate = std::min(machine.nccl.ll_most, rate / 2);
  const double start = split.ll ? machine.nccl.base.ll + links.hop.ll : machine.nccl.base.simple + links.hop.simple;
  return start + transfer_us(peers.inside * peers.bytes, rate) + relayed;
}

double network_us(const MachineProfile& machine, const Group& group, const Peers& peers, const P2pSplit& split) {
  if (peers.outside <= 0) return 0;
  const Network& network = machine.network;
  const NodePattern pattern = pattern_of(group);
  const double far = network.level_latency * network_rate(machine, group, pattern).step;
  const double start =
      far + (split.ll ? machine.nccl.base.ll + network.hop.ll : machine.nccl.base.simple + network.hop.simple);
  const double ll_most = group.nodes <= 2 ? network.ll_two_nodes : network.ll_more_nodes;
  const double gpu = network_per_gpu(machine, group, pattern);
  return start + transfer_us(peers.outside * peers.bytes, split.ll ? std::min(gpu, ll_most / 2) : gpu);
}

std::string_view rail_words(const MachineProfile& machine, const Group& group) {
  if (other_rail_share(machine, group, pattern_of(group)) <= 0) return {};
  if (rails_apart(machine)) return ", none to other rails";
  if (relays_by_pxn(machine)) return ", to other rails by PXN";
  if (machine.network.rail_switches) return ", to other rails through the switches (no PXN)";
  return ", no PXN";
}

}  // namespace

P2pSplit p2p_split(double channels, double bytes, double ranks, bool one_node, bool own) {
  const double all = power_of_two_up(channels);
  const double most = one_node ? all : std::min(all, kNetChannels);
  double least = most;
  while (least * ranks > all && least > 1) least /= 2;
  P2pSplit out;
  out.ll = !own && bytes <= most * kLlBytes;
  const double step = out.ll ? kLlStep : kSimpleStep;
  out.channels = std::clamp(std::ceil(bytes / (step / 8)), 1.0, least);
  while (bytes / out.channels > 32 * step && out.channels <= most / 2) out.channels *= 2;
  return out;
}

Estimate point_to_point(const MachineProfile& machine, const Group& group) {
  const Peers peers = peers_of(machine, group);
  const P2pSplit split = p2p_split(machine.nccl.channels, peers.bytes, group.ranks, group.one_node());
  Estimate out;
  out.sms = held_channels(machine.nccl.channels, peers, split, group);
  out.us = std::max(node_us(machine, peers, split, out.sms), network_us(machine, group, peers, split));
  out.uses = CollectiveResource::ring;
  out.link = peers.inside * peers.bytes + peers.relayed;
  out.network = peers.outside * peers.bytes;
  out.pattern = pattern_of(group);
  // Read, written into the peer's FIFO, read from the own FIFO, written; the own part read and written. PXN's FIFO lies
  // in the GPU at the adapter instead.
  out.hbm = 4 * (peers.inside * peers.bytes + out.network) + 2 * peers.own;
  out.path = fmt::format("NCCL sends and receives, {}, {} channels", split.ll ? "LL" : "Simple", out.sms);
  if (!group.one_node()) out.path += fmt::format(" over {} nodes{}", group.nodes, rail_words(machine, group));
  return out;
}

}  // namespace foreshard::sim
