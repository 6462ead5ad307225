#include "sim/collectives/ring.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>

#include "sim/collectives/network_rate.hpp"

namespace foreshard::sim {
namespace {

constexpr std::array kProtocols{Protocol::ll, Protocol::ll128, Protocol::simple};

double of(const PerProtocol& values, Protocol protocol) {
  return protocol == Protocol::ll ? values.ll : protocol == Protocol::ll128 ? values.ll128 : values.simple;
}

/// From one rank to the next and on, in one direction: every rank does one thing all the time.
bool is_chain(CollectiveKind kind) {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
}

/// GB/s at which one channel does its last phase: it copies what came, or adds it. An all-reduce's copies.
double last_phase_rate(const Links& links, const Group& group) {
  if (group.kind != CollectiveKind::reduce_scatter) return links.gather_channel;
  return links.reduce_channel * (group.dtype == DType::float32 ? links.float32_sums : 1);
}

/// A channel's last phase, while its link is idle. Nothing of that in a chain.
double last_phase_us(const MachineProfile& machine, const Group& group, double channels) {
  if (is_chain(group.kind)) return 0;
  return transfer_us(group.shard(), channels * last_phase_rate(machine.links, group));
}

/// The share of it that other channels' transfers hide: channels begin in step and drift apart chunk by chunk.
double hidden_share(const MachineProfile& machine, const Group& group, double channels) {
  const double drift = machine.links.ring_drift;
  const double part = group.shard() / channels / static_cast<double>(kMiB);
  return drift > 0 ? part / (part + drift) : 0;
}

/// Microseconds of the bytes by Simple inside a node.
double simple_us(const MachineProfile& machine, const Group& group, double channels) {
  return transfer_us(group.wire(), machine.links.ring) +
         (1 - hidden_share(machine, group, channels)) * last_phase_us(machine, group, channels);
}

/// GB/s through one GPU's links while a Simple ring runs, its last phases among it.
double node_bandwidth(const MachineProfile& machine, const Group& group, double channels) {
  return group.wire() / simple_us(machine, group, channels) / 1e3;
}

double with_protocol(const MachineProfile& machine, const Group& group, Protocol protocol, double simple,
                     double channels) {
  const NcclConstants& nccl = machine.nccl;
  switch (protocol) {
    case Protocol::ll: {
      const double most = group.one_node()   ? nccl.ll_most
                          : group.nodes <= 2 ? machine.network.ll_two_nodes
                                             : machine.network.ll_more_nodes;
      return std::min(most, simple / 2);
    }
    case Protocol::ll128:
      return std::min(nccl.ll128_share * simple, channels * nccl.ll128_channel);
    case Protocol::simple:
      break;
  }
  return simple;
}

/// Beside others that cross nodes a step inside one takes the host_overhead at least.
RingHopLatency hop_latency(const MachineProfile& machine, const Group& group, Protocol protocol) {
  const Network& network = machine.network;
  const double overhead = group.one_node() ? 0 : network.host_overhead * (protocol == Protocol::simple ? 3 : 1);
  return {std::max(of(machine.links.hop, protocol), overhead), of(network.hop, protocol)};
}

/// Microseconds before the last byte could arrive if bytes were free.
double latency(const MachineProfile& machine, const Group& group, Protocol protocol) {
  const double twice = group.kind == CollectiveKind::all_reduce ? 2 : 1;
  const double between = twice * (group.nodes - 1);
  const double inside = twice * (group.ranks - 1) - between;
  const RingHopLatency hop = hop_latency(machine, group, protocol);
  return of(machine.nccl.base, protocol) + inside * hop.inside + between * hop.between +
         twice * network_rate(machine, group, NodePattern::ring).levels * machine.network.level_latency;
}

/// HBM bytes for each byte on the wire: reads of the source and of the receive FIFO, writes to either
/// (docs/collectives.md, "Memory traffic").
double hbm_share(CollectiveKind kind, bool registered) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return registered ? 2 : 4;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::reduce:
      return 3;
    case CollectiveKind::broadcast:
    case CollectiveKind::all_to_all:
    case CollectiveKind::send_recv:
      return 4;
    case CollectiveKind::all_reduce:
      break;
  }
  return 3.5;  // half reduce-scatter, half all-gather
}

/// Microseconds more before the first step than NCCL counts, as measured on one node.
double start_us(const MachineProfile& machine, const Group& group, Protocol protocol) {
  const NcclConstants& nccl = machine.nccl;
  if (is_chain(group.kind)) return 0;
  if (group.gathers()) return of(nccl.gather_start, protocol);
  return of(nccl.reduce_start, protocol);
}

/// GB/s of LL and LL128. LL carries a flag for each word of data: half of the link. NCCL counts at most `ll_most`,
/// which an all-reduce keeps to.
double one_node_rate(const MachineProfile& machine, const Group& group, Protocol protocol, double channels) {
  const double link = machine.links.ring;
  if (protocol == Protocol::ll && group.kind != CollectiveKind::all_reduce) return link / 2;
  return with_protocol(machine, group, protocol, link, channels);
}

double one_node_us(const MachineProfile& machine, const Group& group, Protocol protocol, double channels) {
  const double start = latency(machine, group, protocol) + start_us(machine, group, protocol);
  if (protocol == Protocol::simple) return start + simple_us(machine, group, channels);
  return start + transfer_us(group.wire(), one_node_rate(machine, group, protocol, channels));
}

/// What NCCL expects a ring on one node to take (src/graph/tuning.cc, ncclTopoGetAlgoTime): by this it chooses.
double expected_us(const MachineProfile& machine, const Group& group, Protocol protocol) {
  const double channels = machine.nccl.channels;
  return latency(machine, group, protocol) +
         transfer_us(group.wire(), with_protocol(machine, group, protocol, machine.links.ring, channels));
}

double bus_between_nodes(const MachineProfile& machine, const Group& group) {
  const double network = network_per_gpu(machine, group) * group.per_node;
  if (group.per_node < 2) return network;
  // Of a GPU's steps per_node − 1 in per_node stay inside the node.
  const double inside = node_bandwidth(machine, group, machine.nccl.channels) * group.per_node / (group.per_node - 1);
  return std::min(network, inside);
}

/// Across nodes the pipeline hides part of the latency behind the transfer: their sum with an exponent. LL has no
/// pipeline of chunks, its words wait for one another.
double many_nodes_us(const MachineProfile& machine, const Group& group, Protocol protocol, double channels) {
  const Network& network = machine.network;
  const double searched = std::max(1.0, channels / 2);  // NCCL's LL128 cap counts channels before they are doubled
  const double bus = bus_between_nodes(machine, group);
  const double longer = protocol == Protocol::simple ? network.lengthening_simple : network.lengthening_ll128;
  const double waits = longer * latency(machine, group, protocol);
  const double moves = transfer_us(group.wire(), with_protocol(machine, group, protocol, bus, searched));
  const double exponent = protocol == Protocol::ll ? 1 : network.overlap;
  return std::pow(std::pow(waits, exponent) + std::pow(moves, exponent), 1 / exponent);
}

double channels_of(const MachineProfile& machine, const Group& group) {
  if (group.one_node()) return machine.nccl.channels;
  // One GPU a node drives one adapter: 2 channels, doubled.
  return group.per_node < 2 ? std::min<double>(machine.network.channels, 4) : machine.network.channels;
}

bool offered(const MachineProfile& machine, const Group& group, Protocol protocol) {
  if (group.one_node() || protocol != Protocol::ll128) return true;
  return group.shard() <= machine.network.ll128_rank_mib * static_cast<double>(kMiB);
}

}  // namespace

std::string_view word(Protocol protocol) {
  return protocol == Protocol::ll ? "LL" : protocol == Protocol::ll128 ? "LL128" : "Simple";
}

double ring_bandwidth_inside(const MachineProfile& machine, const Group& group) {
  return node_bandwidth(machine, group, machine.nccl.channels);
}

RingHopLatency ring_hop_latency(const MachineProfile& machine, const Group& group) {
  return hop_latency(machine, group, Protocol::simple);
}

double ring_channels(double channels, double bytes, double ranks, Protocol protocol) {
  // src/enqueue.cc, getAlgoInfo and src/graph/tuning.cc, ncclMaxThreads: bytes a thread handles at least, times
  // threads.
  const double least = protocol == Protocol::ll      ? 8 * ranks * 512
                       : protocol == Protocol::ll128 ? 8 * 640.0
                                                     : 64 * 512.0;
  return std::clamp(std::floor(bytes / least), 1.0, channels);
}

Estimate ring(const MachineProfile& machine, const Group& group, Protocol protocol, bool registered) {
  Estimate out;
  const double wire = group.wire();
  const double channels = channels_of(machine, group);
  out.us = group.one_node() ? one_node_us(machine, group, protocol, channels)
                            : many_nodes_us(machine, group, protocol, channels);
  out.uses = CollectiveResource::ring;
  out.sms = ring_channels(channels, group.bytes, group.ranks, protocol);
  out.hbm = wire * hbm_share(group.kind, registered && protocol == Protocol::simple);
  // A channel leaves the node through one of its GPUs.
  out.network = group.one_node() ? 0 : wire / group.per_node;
  out.link = wire - out.network;
  out.path = fmt::format("NCCL ring, {}, {} channels", word(protocol), out.sms);
  if (!group.one_node()) out.path += fmt::format(" over {} nodes", group.nodes);
  return out;
}

Protocol ring_protocol(const MachineProfile& machine, const Group& group) {
  // Across nodes what NCCL expects and what is measured are not known apart: the fastest.
  std::optional<Protocol> best;
  double least = 0;
  for (const Protocol protocol : kProtocols) {
    if (!offered(machine, group, protocol)) continue;
    const double us =
        group.one_node() ? expected_us(machine, group, protocol) : ring(machine, group, protocol, false).us;
    if (best && us >= least) continue;
    best = protocol;
    least = us;
  }
  return best.value_or(Protocol::simple);
}

}  // namespace foreshard::sim
