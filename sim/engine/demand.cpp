#include "sim/engine/demand.hpp"

#include <algorithm>
#include <cmath>

#include "sim/collectives/network_rate.hpp"

namespace foreshard::sim {
namespace {

constexpr std::uint64_t kMaxTiles = 1u << 30;

double per_second(double bytes, Nanoseconds time) {
  return time.count > 0 ? bytes / (static_cast<double>(time.count) * 1e-9) : 0;
}

const CollectivePath& path_of(const ContentionSpec& spec, CollectiveResource uses) {
  switch (uses) {
    case CollectiveResource::symmetric:
      return spec.symmetric;
    case CollectiveResource::copy_engine:
      return spec.copy_engine;
    case CollectiveResource::ring:
      break;
  }
  return spec.ring;
}

}  // namespace

KernelDemand kernel_demand(const MachineProfile& machine, const KernelWork& kernel) {
  const KernelUse& use = machine.contention.classes[static_cast<std::size_t>(kernel.kernel_class)];
  KernelDemand out;
  out.sms = use.sms;
  out.memory = use.memory;
  out.pressure = use.pressure;
  out.tiles = use.tiles;
  out.persistent = use.persistent;
  out.ring_slowdown = kernel.ring_slowdown;
  return out;
}

KernelDemand kernel_demand(const MachineProfile& machine, const KernelWork& kernel, const KernelPrice& price) {
  KernelWork of_class = kernel;
  of_class.kernel_class = price.kernel_class;
  KernelDemand out = kernel_demand(machine, of_class);
  if (out.tiles > 0 && price.tiles > 0) {
    out.tiles = static_cast<std::uint32_t>(std::min<std::uint64_t>(price.tiles, kMaxTiles));
    out.shaped = true;
  }
  const double reached = machine.contention.memory_bandwidth;
  if (price.kernel_class == KernelClass::memory_bound && price.memory_share > 0 && reached > 0) {
    out.memory = std::min(1.0, price.memory_share * machine.peaks.memory_bandwidth / reached);
    out.pressure = out.memory;
    out.sms = 1 - out.memory * (1 - machine.contention.full_rate_sms);
  }
  out.held = price.held;
  out.streamed = price.streamed;
  return out;
}

CollectiveDemand collective_demand(const MachineProfile& machine, const CollectiveRequest& request,
                                   const CollectivePrice& price) {
  const ContentionSpec& spec = machine.contention;
  const CollectivePath& path = path_of(spec, price.uses);
  CollectiveDemand out;
  out.sms = price.uses == CollectiveResource::copy_engine ? 0 : price.sms > 0 ? price.sms : path.sms;
  // A price that names no bytes at all does not know them.
  const bool known = price.link_bytes > 0 || price.network_bytes > 0;
  const Group group = group_of(request);
  const double rate = per_second(known ? static_cast<double>(price.link_bytes) : group.wire(), price.time);
  const double network = per_second(static_cast<double>(price.network_bytes), price.time);
  const double adapters = 1e9 * rail_bandwidth(machine);
  if (network > 0 && adapters > 0) {
    const NetworkRate reached = network_rate(machine, group, price.pattern);
    out.network = std::min(reached.rate, network / adapters);
    out.busiest = 1 / reached.rate;
  }
  if (path.link_bandwidth <= 0 || spec.memory_bandwidth <= 0) return out;  // a machine on which nothing is shared
  out.link = std::min(1.0, rate * link_slowdown(machine, request) / path.link_bandwidth);
  out.traffic = (rate + network) * path.memory_per_byte / spec.memory_bandwidth;
  const bool own = request.transport == Transport::pull_reduce && price.uses == CollectiveResource::symmetric;
  if (own) out.persistent_pressure = path.persistent_pressure;
  out.streams = own;
  const double latency = adds(request.kind) ? path.reduce_latency : path.gather_latency;
  out.ring = price.uses == CollectiveResource::ring && out.sms > 0;
  // Fewer CTAs have fewer accesses in flight (8, 16, 24 of them: 2.26, 1.90, 1.70 times slower beside a large copy).
  const double channels = out.ring ? std::min(1.0, out.sms / path.sms) : 1;
  out.latency = latency * std::min(1.0, out.link / (spec.busy_link * channels)) / std::sqrt(channels);
  return out;
}

CollectiveDemand peer_copy_demand(const MachineProfile& machine, Bytes bytes, Nanoseconds work) {
  CollectivePrice price;
  price.time = work;
  price.uses = CollectiveResource::copy_engine;
  price.link_bytes = bytes;
  return collective_demand(machine, {}, price);
}

}  // namespace foreshard::sim
