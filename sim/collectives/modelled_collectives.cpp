#include "sim/collectives/modelled_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/base/units.hpp"
#include "core/device/transport_choice.hpp"
#include "sim/collectives/all_reduce.hpp"
#include "sim/collectives/copy_engines.hpp"
#include "sim/collectives/line_exchange.hpp"
#include "sim/collectives/network_rate.hpp"
#include "sim/collectives/point_to_point.hpp"
#include "sim/collectives/pull_reduce.hpp"
#include "sim/collectives/rails.hpp"
#include "sim/collectives/ring.hpp"
#include "sim/collectives/switch_sums.hpp"
#include "sim/collectives/symmetric.hpp"

namespace foreshard::sim {
namespace {

template <bool kRegistered>
Estimate ring_or_tree(const MachineProfile& machine, const MachineProfile& seen, const Group& group) {
  if (group.kind == CollectiveKind::all_reduce)
    return all_reduce(machine, group, all_reduce_way(seen, group), kRegistered);
  if (group.kind == CollectiveKind::all_to_all || group.kind == CollectiveKind::send_recv)
    return point_to_point(machine, group);
  const Protocol protocol = ring_protocol(seen, group);
  if (has_sharp_exchange(seen, group) && sharp_exchange(seen, group).us < ring(seen, group, protocol, kRegistered).us)
    return sharp_exchange(machine, group);
  return ring(machine, group, protocol, kRegistered);
}

/// Where the machine's speeds choose nothing.
template <Estimate (*kEstimate)(const MachineProfile&, const Group&)>
Estimate one_way(const MachineProfile& machine, const MachineProfile&, const Group& group) {
  return kEstimate(machine, group);
}

Estimate low_contention(const MachineProfile& machine, const Group& group) {
  if (exchanges(machine, group)) return exchange(machine, group);
  return group.gathers() ? low_contention_gather(machine, group) : low_contention_scatter(machine, group);
}

Estimate own_reduce(const MachineProfile& machine, const Group& group) {
  return exchanges(machine, group) ? exchange(machine, group) : pull_reduce(machine, group);
}

constexpr std::string_view kWindows = "ncclCommWindowRegister: handles of the buffer are exchanged and mapped";
constexpr std::string_view kRendezvous = "symmetric-memory rendezvous: handles of the buffer are exchanged and mapped";

/// How a transport is priced where it runs.
struct Mechanism {
  /// On the first machine, with what is chosen on the second.
  Estimate (*estimate)(const MachineProfile& machine, const MachineProfile& seen, const Group& group);
  std::string_view registration;  ///< what the first use of a buffer costs (FirstUse::why); empty: nothing
};

/// By Transport.
constexpr std::array<Mechanism, kEnumSize<Transport>> kMechanisms{{
    {ring_or_tree<false>, {}},
    {ring_or_tree<true>, "ncclCommRegister of the buffer"},
    {symmetric, kWindows},
    {one_way<copy_engine_gather>, kWindows},
    {one_way<low_contention>, kRendezvous},
    {one_way<own_reduce>, kRendezvous},
}};
static_assert(names_end_with(Transport::pull_reduce), "one row for each transport");

const Mechanism& mechanism_of(Transport ran) {
  return kMechanisms[static_cast<std::size_t>(ran)];
}

TransportChoice choose(const CollectiveRequest& request, const Group& group) {
  CollectiveWork work{request.kind, request.transport, request.bytes, {}, request.dtype};
  if (request.upcasts) work.output_dtype = DType::float32;
  work.reduction = request.reduction;
  TransportFacts facts;
  facts.lowering = request.lowering;
  facts.ranks = static_cast<std::uint32_t>(group.ranks);
  facts.one_host = group.one_node();
  // FSDP2 asks for memory of the transport for what it gathers and scatters, and all-reduces the scattered sums, which
  // lie in no window of that group.
  facts.registered =
      request.kind != CollectiveKind::all_reduce || memory_of(request.transport) != MemoryKind::symmetric;
  return choose_transport(work, facts);
}

double modelled_us(const MachineProfile& machine, const MachineProfile& seen, const CollectiveRequest& request) {
  const Group group = group_of(request);
  return mechanism_of(choose(request, group).transport).estimate(machine, seen, group).us;
}

/// Of sends between nodes: some are for a rail that nothing brings them to.
bool cannot_go(const MachineProfile& machine, const CollectiveRequest& request, const Group& group) {
  const NodePattern pattern = request.kind == CollectiveKind::all_to_all ? NodePattern::all_to_all : NodePattern::send;
  const bool sends = request.kind == CollectiveKind::all_to_all || request.kind == CollectiveKind::send_recv;
  return sends && rails_apart(machine) && other_rail_share(machine, group, pattern) > 0;
}

std::string caveat(const MachineProfile& machine, const CollectiveRequest& request, Transport ran, const Group& group,
                   std::uint32_t measured_ranks) {
  const std::string nodes = group.one_node() ? std::string{} : fmt::format(" on {:.0f} nodes", group.nodes);
  std::string text =
      fmt::format("{} {} of {} ranks{} is modelled", name(ran), dashed_name(request.kind), request.ranks, nodes);
  if (cannot_go(machine, request, group))
    return text + ": its messages between rails cannot go, as the rails are not linked and PXN needs NVLink";
  if (measured_ranks == 0) return text + fmt::format(", not measured on {}", machine.name);
  return text + fmt::format(" and scaled by what {} ranks took on {}", measured_ranks, machine.name);
}

/// As if all links were as slow as the slowest member's: a ring, a tree and the pushes of a gather wait for it.
MachineProfile with_slow_links(MachineProfile machine, double slowdown) {
  Links& links = machine.links;
  for (double* bandwidth : {&links.ring, &links.nvls_bandwidth, &links.symmetric_store, &links.symmetric_load,
                            &links.symmetric_switch, &links.push, &links.pull})
    *bandwidth /= slowdown;
  return machine;
}

bool has_whole_network(const MachineProfile& machine) {
  return machine.network.slow_adapters.empty() && !machine.network.background.any();
}

MachineProfile with_whole_network(MachineProfile machine) {
  machine.network.slow_adapters.clear();
  machine.network.background = {};
  return machine;
}

/// Tables were measured on healthy adapters that had no other traffic: a run's are no part of what the formulas miss.
TableCorrection correction_of(const MachineProfile& profile, const MachineProfile& seen) {
  const auto corrects = [&profile](const MachineProfile& timed, const MachineProfile& chosen_on) {
    return TableCorrection(profile,
                           [&](const CollectiveRequest& request) { return modelled_us(timed, chosen_on, request); });
  };
  if (has_whole_network(profile) && has_whole_network(seen)) return corrects(profile, seen);
  return corrects(with_whole_network(profile), with_whole_network(seen));
}

Bytes whole(double bytes) {
  constexpr double kMax = 9e18;  // inside 63 bits
  return static_cast<Bytes>(std::llround(std::clamp(bytes, 0.0, kMax)));
}

/// Registration is said where it changes nothing, too: people turn it on and look for an effect.
std::string registered_note(const CollectiveRequest& request, const Group& group) {
  if (request.transport != Transport::nccl_registered) return {};
  if (request.kind == CollectiveKind::reduce_scatter)
    return ": registration changes nothing for a ring reduce-scatter, every step adds into a FIFO";
  if (!group.one_node()) return ": peers of the same node write straight into the registered buffers";
  return ": peers write straight into the registered buffers";
}

}  // namespace

ModelledCollectives::ModelledCollectives(const MachineProfile& profile, const MachineProfile& seen)
    : profile_(profile), seen_(seen), correction_(correction_of(profile, seen)) {}

CollectivePrice ModelledCollectives::price(const CollectiveRequest& request) const {
  if (request.ranks <= 1) return {};  // nothing to move
  const double slowdown = link_slowdown(profile_, request);
  return slowdown > 1 ? price_on(with_slow_links(profile_, slowdown), request) : price_on(profile_, request);
}

CollectivePrice ModelledCollectives::price_on(const MachineProfile& machine, const CollectiveRequest& request) const {
  const Group group = group_of(request);
  const TransportChoice taken = choose(request, group);
  Estimate cost = mechanism_of(taken.transport).estimate(machine, seen_, group);
  const TableCorrection::Correction measured = correction_.correction(request, taken.transport);
  // No table is of switches that add: of the way that NCCL takes without them it says nothing of this one.
  const double factor = cost.sharp ? 1 : measured.factor;
  const std::uint32_t measured_ranks = cost.sharp ? 0 : measured.measured_ranks;
  CollectivePrice price;
  price.time = time_of_us(cost.us * factor);
  price.period = std::max(price.time, time_of_us(measured.issue_us + cost.host_us));
  price.uses = cost.uses;
  price.sms = cost.sms;
  price.hbm_bytes = whole(cost.hbm);
  price.link_bytes = whole(cost.link);
  price.network_bytes = whole(cost.network);
  price.pattern = cost.pattern;
  price.copied_bytes = whole(cost.copied);
  price.temporary_bytes = whole(cost.temporary);
  price.host = time_of_us(cost.host_us);
  price.path = std::move(cost.path);
  price.path += taken.why.empty() ? registered_note(request, group) : ": " + taken.why;
  price.why_not_asked = taken.why;
  price.cannot_run = cannot_go(machine, request, group);
  if (!price.cannot_run && measured_ranks == request.ranks) return price;
  price.caveat = caveat(machine, request, taken.transport, group, measured_ranks);
  if (price.cannot_run || cost.sharp) return price;
  if (const HeldOut held = held_out(request, taken.transport); held.points > 0) {
    price.caveat += fmt::format("; {} measured ones of {} to {} are within {:.1f} %", held.points,
                                format_bytes(held.least), format_bytes(held.most), 100 * std::expm1(held.worst));
    price.within = held.worst;
  }
  return price;
}

ModelledCollectives::HeldOut ModelledCollectives::held_out(const CollectiveRequest& request, Transport ran) const {
  HeldOut out;
  for (const CollectiveTable& table : profile_.collectives) {
    if (!table.held_out || table.kind != request.kind || table.ranks != request.ranks ||
        table.ranks_per_node != std::min(request.ranks, request.ranks_per_node) || table.transport != ran)
      continue;
    for (const CollectiveTable::Point& point : table.points) {
      CollectiveRequest measured{table.kind, table.transport, point.bytes, table.ranks, table.ranks_per_node};
      measured.upcasts = table.upcasts;
      measured.dtype = table.dtype;
      const double us = modelled_us(profile_, seen_, measured) * correction_.correction(measured, ran).factor;
      out.worst = std::max(out.worst, std::abs(std::log(us / point.time.us())));
      out.least = out.points == 0 ? point.bytes : std::min(out.least, point.bytes);
      out.most = std::max(out.most, point.bytes);
      ++out.points;
    }
  }
  return out;
}

FirstUse ModelledCollectives::first_use(const CollectiveRequest& request) const {
  if (request.ranks <= 1) return {};
  const NcclConstants& nccl = profile_.nccl;
  FirstUse out;
  out.communicator = time_of_us(nccl.communicator_init + nccl.communicator_init_rank * request.ranks);
  out.why = mechanism_of(choose(request, group_of(request)).transport).registration;
  if (out.why.empty()) return out;
  const double gib = static_cast<double>(request.bytes) / static_cast<double>(kGiB);
  out.registration = time_of_us(nccl.window_register + nccl.window_register_gib * gib);
  return out;
}

}  // namespace foreshard::sim
