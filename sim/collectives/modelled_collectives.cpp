#include "sim/collectives/modelled_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/device/collective_names.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/collectives/all_reduce.hpp"
#include "sim/collectives/copy_engines.hpp"
#include "sim/collectives/fallback.hpp"
#include "sim/collectives/pull_reduce.hpp"
#include "sim/collectives/ring.hpp"
#include "sim/collectives/symmetric.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {
namespace {

Estimate estimate(const MachineProfile& machine, const Group& group, Transport ran) {
  switch (ran) {
    case Transport::symmetric:
      return symmetric(machine, group);
    case Transport::copy_engine:
      return copy_engine_gather(machine, group);
    case Transport::low_contention:
      return group.gathers() ? low_contention_gather(machine, group) : low_contention_scatter(machine, group);
    case Transport::pull_reduce:
      return pull_reduce(machine, group);
    case Transport::nccl:
    case Transport::nccl_registered:
      break;
  }
  const bool registered = ran == Transport::nccl_registered;
  if (group.kind == CollectiveKind::all_reduce) return all_reduce(machine, group, registered);
  return ring(machine, group, registered);
}

double modelled_us(const MachineProfile& machine, const CollectiveRequest& request) {
  const Group group = group_of(request);
  return estimate(machine, group, route(request, group).transport).us;
}

std::string caveat(const MachineProfile& machine, const CollectiveRequest& request, Transport ran, const Group& group,
                   std::uint32_t measured_ranks) {
  const std::string nodes = group.one_node() ? std::string{} : fmt::format(" on {:.0f} nodes", group.nodes);
  std::string text =
      fmt::format("{} {} of {} ranks{} is modelled", name(ran), dashed_name(request.kind), request.ranks, nodes);
  if (measured_ranks == 0) return text + fmt::format(", not measured on {}", machine.name);
  return text + fmt::format(" and scaled by what {} ranks took on {}", measured_ranks, machine.name);
}

Bytes whole(double bytes) {
  constexpr double kMax = 9e18;  // inside 63 bits
  return static_cast<Bytes>(std::llround(std::clamp(bytes, 0.0, kMax)));
}

Nanoseconds from_us(double us) {
  return op_time(us * 1e3);
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

ModelledCollectives::ModelledCollectives(const MachineProfile& profile)
    : profile_(profile),
      correction_(profile, [&profile](const CollectiveRequest& request) { return modelled_us(profile, request); }) {}

CollectivePrice ModelledCollectives::price(const CollectiveRequest& request) const {
  if (request.ranks <= 1) return {};  // nothing to move
  const Group group = group_of(request);
  const Route taken = route(request, group);
  Estimate cost = estimate(profile_, group, taken.transport);
  const TableCorrection::Correction measured = correction_.correction(request, taken.transport);
  CollectivePrice price;
  price.time = from_us(cost.us * measured.factor);
  price.period = std::max(price.time, from_us(measured.issue_us + cost.host_us));
  price.uses = cost.uses;
  price.sms = cost.sms;
  price.hbm_bytes = whole(cost.hbm);
  price.link_bytes = whole(cost.link);
  price.network_bytes = whole(cost.network);
  price.copied_bytes = whole(cost.copied);
  price.temporary_bytes = whole(cost.temporary);
  price.host = from_us(cost.host_us);
  price.path = std::move(cost.path);
  price.path += taken.why.empty() ? registered_note(request, group) : ": " + taken.why;
  if (measured.measured_ranks != request.ranks)
    price.caveat = caveat(profile_, request, taken.transport, group, measured.measured_ranks);
  return price;
}

FirstUse ModelledCollectives::first_use(const CollectiveRequest& request) const {
  if (request.ranks <= 1) return {};
  const NcclConstants& nccl = profile_.nccl;
  FirstUse out;
  out.communicator = from_us(nccl.communicator_init + nccl.communicator_init_rank * request.ranks);
  const Transport ran = route(request, group_of(request)).transport;
  if (ran == Transport::nccl) return out;
  const double gib = static_cast<double>(request.bytes) / static_cast<double>(kGiB);
  out.registration = from_us(nccl.window_register + nccl.window_register_gib * gib);
  out.why = ran == Transport::nccl_registered ? "ncclCommRegister of the buffer"
            : ran == Transport::low_contention || ran == Transport::pull_reduce
                ? "symmetric-memory rendezvous: handles of the buffer are exchanged and mapped"
                : "ncclCommWindowRegister: handles of the buffer are exchanged and mapped";
  return out;
}

}  // namespace foreshard::sim
