#include "sim/collectives/bound.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "sim/collectives/modelled_collectives.hpp"

namespace foreshard::sim {
namespace {

struct Words {
  std::string_view name, words;
};

/// By Bound.
constexpr std::array kWords{Words{"latency", "latency"},           Words{"nvlink", "NVLink"},
                            Words{"adapters", "the adapters"},     Words{"slow_adapter", "a slow adapter"},
                            Words{"slow_link", "a slow NVLink"},   Words{"fabric", "the fabric behind the adapters"},
                            Words{"pcie", "the GPUs' PCIe slots"}, Words{"background_load", "other traffic"}};
static_assert(kWords.size() == kBounds, "each Bound has its words");

void scale(PerProtocol& values, double factor) {
  for (double* value : {&values.ll, &values.ll128, &values.simple}) *value *= factor;
}

/// So much faster, or without what is slow.
MachineProfile faster(MachineProfile machine, Bound bound, double factor) {
  Links& links = machine.links;
  NcclConstants& nccl = machine.nccl;
  Network& network = machine.network;
  switch (bound) {
    case Bound::nvlink:
    case Bound::pcie:
      for (double* bandwidth :
           {&links.ring, &links.gather_channel, &links.reduce_channel, &links.p2p_channel, &links.nvls_bandwidth,
            &links.symmetric_store, &links.symmetric_load, &links.symmetric_switch, &links.push, &links.pull,
            &nccl.ll128_channel, &nccl.tree_channel, &nccl.ll_most})
        *bandwidth *= factor;
      break;
    case Bound::adapters:
      network.nic *= factor;
      break;
    case Bound::latency:
      for (PerProtocol* hops : {&links.hop, &links.tree_hop, &nccl.base, &nccl.gather_start, &nccl.reduce_start,
                                &nccl.tree_base, &network.hop})
        scale(*hops, 1 / factor);
      for (double* latency : {&nccl.nvls_latency, &nccl.symmetric_latency, &nccl.symmetric_ll_latency,
                              &nccl.symmetric_wait, &nccl.copy_engine_sync, &nccl.barrier, &nccl.copy_start,
                              &nccl.copy_ramp, &network.host_overhead, &network.level_latency, &network.sharp_hop,
                              &network.sharp_direct_hop, &network.sharp_direct_start, &network.sharp_direct_peer})
        *latency /= factor;
      break;
    case Bound::slow_adapter:
      network.slow_adapters.clear();
      break;
    case Bound::background:
      network.background = {};
      break;
    case Bound::slow_link:
      links.slow_links.clear();
      break;
    case Bound::fabric:
      network.oversubscription = network.pod_oversubscription = 1;
      break;
  }
  return machine;
}

constexpr double kTwice = 2;

/// A machine, and the one on which NCCL chose what runs.
struct Asked {
  const MachineProfile& machine;
  const MachineProfile& seen;
};

/// The share of its time that it would save, were the same algorithm and protocol to run: another choice is no speed of
/// the part, and may be slower.
double saved(const Asked& asked, const CollectiveRequest& request, Bound bound, double factor) {
  const auto time = [&](const MachineProfile& of) {
    return ModelledCollectives(of, asked.seen).price(request).time.us();
  };
  const double now = time(asked.machine);
  return now > 0 ? 1 - time(faster(asked.machine, bound, factor)) / now : 0;
}

Bound holds(const Asked& asked, const CollectiveRequest& request) {
  Bound out = Bound::latency;
  double most = 0;
  constexpr double kCounts = 0.05;
  constexpr double kLittle = 1.02;
  for (const Bound slow : {Bound::slow_adapter, Bound::slow_link, Bound::background, Bound::fabric})
    if (const double share = saved(asked, request, slow, kTwice); share > kCounts && share > most) {
      most = share;
      out = slow;
    }
  if (most > 0) return out;
  const Bound inside = asked.machine.links.pcie ? Bound::pcie : Bound::nvlink;
  for (const Bound part : {Bound::latency, inside, Bound::adapters})
    if (const double share = saved(asked, request, part, kLittle); share > most) {
      most = share;
      out = part;
    }
  return out;
}

bool is_slow_part(Bound bound) {
  return bound == Bound::slow_adapter || bound == Bound::slow_link || bound == Bound::background ||
         bound == Bound::fabric;
}

}  // namespace

std::string_view words(Bound bound) {
  return kWords[static_cast<std::size_t>(bound)].words;
}

std::string_view name(Bound bound) {
  return kWords[static_cast<std::size_t>(bound)].name;
}

Holding holding(const MachineProfile& machine, const CollectiveRequest& request) {
  MachineProfile bare = machine;
  bare.collectives.clear();
  Holding out;
  out.now = holds({bare, bare}, request);
  out.saves = saved({bare, bare}, request, out.now, kTwice);
  const MachineProfile doubled = faster(bare, out.now, kTwice);
  if (const Bound then = holds({doubled, bare}, request); then != out.now) out.next = then;
  return out;
}

std::string relief_words(const Holding& holding) {
  const char* relief = is_slow_part(holding.now)       ? "without it"
                       : holding.now == Bound::latency ? "half of it"
                                                       : "twice as fast";
  std::string text = fmt::format("{}; {} saves {:.0f} %", words(holding.now), relief, 100 * holding.saves);
  if (holding.next) text += fmt::format(", then {}", words(*holding.next));
  return text;
}

}  // namespace foreshard::sim
