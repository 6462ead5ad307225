#include "sim/collectives/bound.hpp"

#include <array>
#include <utility>

#include "sim/collectives/modelled_collectives.hpp"

namespace foreshard::sim {
namespace {

struct Words {
  std::string_view name, words;
};

/// By Bound.
constexpr std::array kWords{Words{"host", "the host's calls"},
                            Words{"latency", "latency"},
                            Words{"nvlink", "NVLink"},
                            Words{"adapters", "the adapters"},
                            Words{"slow_adapter", "a slow adapter"},
                            Words{"slow_link", "a slow NVLink"},
                            Words{"fabric", "the fabric behind the adapters"}};
static_assert(kWords.size() == kBounds, "each Bound has its words");

void scale(PerProtocol& values, double factor) {
  for (double* value : {&values.ll, &values.ll128, &values.simple}) *value *= factor;
}

/// Twice as fast, or without what is slow.
MachineProfile without(MachineProfile machine, Bound bound) {
  Links& links = machine.links;
  NcclConstants& nccl = machine.nccl;
  Network& network = machine.network;
  switch (bound) {
    case Bound::nvlink:
      for (double* bandwidth :
           {&links.ring, &links.gather_channel, &links.reduce_channel, &links.p2p_channel, &links.nvls_bandwidth,
            &links.symmetric_store, &links.symmetric_load, &links.symmetric_switch, &links.push, &links.pull,
            &nccl.ll128_channel, &nccl.tree_channel, &nccl.ll_most})
        *bandwidth *= 2;
      break;
    case Bound::adapters:
      network.nic *= 2;
      break;
    case Bound::latency:
      for (PerProtocol* hops : {&links.hop, &links.tree_hop, &nccl.base, &nccl.tree_base, &network.hop})
        scale(*hops, 0.5);
      for (double* latency :
           {&nccl.nvls_latency, &nccl.symmetric_latency, &nccl.symmetric_ll_latency, &nccl.copy_engine_sync,
            &nccl.barrier, &nccl.copy_start, &network.host_overhead, &network.level_latency})
        *latency /= 2;
      break;
    case Bound::slow_adapter:
      network.slow_adapters.clear();
      break;
    case Bound::slow_link:
      links.slow_links.clear();
      break;
    case Bound::fabric:
      network.oversubscription = network.pod_oversubscription = 1;
      break;
    case Bound::host:
      break;
  }
  return machine;
}

/// The share of its time that it would save.
double saved(const MachineProfile& machine, const CollectiveRequest& request, Bound bound) {
  const auto time = [&](const MachineProfile& of) { return ModelledCollectives(of).price(request).time.us(); };
  const double now = time(machine);
  return now > 0 ? 1 - time(without(machine, bound)) / now : 0;
}

}  // namespace

std::string_view words(Bound bound) {
  return kWords[static_cast<std::size_t>(bound)].words;
}

std::string_view name(Bound bound) {
  return kWords[static_cast<std::size_t>(bound)].name;
}

Bound bound_of(const MachineProfile& machine, const CollectiveRequest& request, const CollectivePrice& price) {
  if (price.period > price.time) return Bound::host;
  MachineProfile bare = machine;
  bare.collectives.clear();
  Bound out = Bound::latency;
  double most = 0;
  constexpr double kCounts = 0.05;
  for (const Bound slow : {Bound::slow_adapter, Bound::slow_link, Bound::fabric})
    if (const double share = saved(bare, request, slow); share > kCounts && share > most) {
      most = share;
      out = slow;
    }
  if (most > 0) return out;
  for (const Bound part : {Bound::latency, Bound::nvlink, Bound::adapters})
    if (const double share = saved(bare, request, part); share > most) {
      most = share;
      out = part;
    }
  return out;
}

}  // namespace foreshard::sim
