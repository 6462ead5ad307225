#include "sim/link_load/link_loads.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "core/run/collective_key.hpp"
#include "core/run/plan_results.hpp"
#include "sim/collectives/group.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/collectives/network_rate.hpp"
#include "sim/link_load/run_groups.hpp"
#include "sim/link_load/run_requests.hpp"
#include "sim/network/fabric.hpp"

namespace foreshard::sim {
namespace {

/// When the last rank of one rank's collectives began them.
class LastBegins {
 public:
  LastBegins(const Run& run, std::uint32_t rank) {
    std::map<CollectiveKey, Nanoseconds> last;
    for (const RankOpRecord& row : run.rank_ops)
      if (row.sequence >= 0) {
        const auto [found, added] = last.try_emplace(key_of(row), row.op.start);
        if (!added) found->second = std::max(found->second, row.op.start);
      }
    for (const RankOpRecord& row : run.rank_ops)
      if (row.sequence >= 0 && row.rank == rank) of_[place(row.op)] = last.at(key_of(row));
  }
  [[nodiscard]] Nanoseconds of(const DeviceOpRecord& op) const {
    const auto found = of_.find(place(op));
    return found == of_.end() ? op.start : std::clamp(found->second, op.start, std::max(op.start, op.end));
  }

 private:
  using Place = std::tuple<Nanoseconds, Nanoseconds, Bytes>;
  static Place place(const DeviceOpRecord& op) { return {op.start, op.end, op.bytes}; }
  std::map<Place, Nanoseconds> of_;
};

/// What a collective puts on each class of links.
struct Loads {
  std::array<double, kEnumSize<LinkClass>> bytes{};
  std::array<double, kEnumSize<LinkClass>> most{};  ///< GB/s that the link carries
};

LinkClass class_of(const Link& link, std::size_t level) {
  if (link.kind == Link::Kind::global) return LinkClass::group;
  return level == 0 ? LinkClass::leaf : LinkClass::pod;
}

/// The most that what runs it moves through one GPU's NVLink.
double nvlink_most(const Links& links, const CollectivePrice& price, Transport transport) {
  switch (price.uses) {
    case CollectiveResource::symmetric:
      return std::max(
          {links.symmetric_store, links.symmetric_load, links.nvls ? links.symmetric_switch : links.symmetric_store});
    case CollectiveResource::copy_engine:
      return transport == Transport::low_contention ? links.pull : links.push;
    case CollectiveResource::ring:
      break;
  }
  return links.ring;
}

/// What a rank's own links are slower by.
double own_slowdown(const Links& links, std::uint32_t rank) {
  double out = 1;
  for (const SlowLink& slow : links.slow_links)
    if (slow.rank == rank) out = std::max(out, slow.slowdown);
  return out;
}

Loads loads_of(const MachineProfile& machine, const CollectiveCost& cost, const CollectiveRequest& request,
               std::uint32_t rank) {
  const CollectivePrice price = cost.price(request);
  const Group group = group_of(request);
  Loads out;
  const auto put = [&out](LinkClass link, double bytes, double most) {
    out.bytes[static_cast<std::size_t>(link)] = bytes;
    out.most[static_cast<std::size_t>(link)] = most;
  };
  const auto network = static_cast<double>(price.network_bytes);
  // A price that names no bytes at all does not know them.
  const double inside =
      price.link_bytes == 0 && price.network_bytes == 0 ? group.wire() : static_cast<double>(price.link_bytes);
  put(machine.links.pcie ? LinkClass::pcie : LinkClass::nvlink, inside,
      nvlink_most(machine.links, price, request.transport) / own_slowdown(machine.links, rank));
  if (network <= 0) return out;
  const double rail = rail_bandwidth(machine);
  put(LinkClass::adapter, network,
      rail *
          adapter_capacity(machine.network, machine.links.gpus, rank / request.node_ranks, rank % request.node_ranks));
  const std::vector<UplinkLoad> uplinks = uplink_loads(machine, group, price.pattern);
  for (std::size_t level = 0; level < uplinks.size(); ++level)
    put(class_of(uplinks[level].link, level), network * uplinks[level].share, uplinks[level].link.capacity * rail);
  return out;
}

/// A rank's ops: those of `alike`, which does the same.
struct RankView {
  std::uint32_t rank = 0;
  std::uint32_t alike = 0;
  const std::vector<DeviceOpRecord>& ops;
  bool of_run = true;  ///< Run::device_ops
};

LinkLoads loads_of_view(const Run& run, const Workload* workload, const MachineProfile& machine, const RankView& view) {
  LinkLoads out;
  out.machine = machine.name;
  const RunGroups groups(run, view.ops, workload);
  const LastBegins begins(run, view.alike);
  const ModelledCollectives cost(machine, machine);
  const std::uint32_t rank = view.rank;
  std::map<CollectiveRequest, Loads> known;
  std::array<LinkLoad, kEnumSize<LinkClass>> links;
  const std::optional<Nanoseconds> hangs = hang_end(run);
  for (std::size_t i = 0; i < view.ops.size(); ++i) {
    const DeviceOpRecord& op = view.ops[i];
    if (op.kind != DeviceOpRecord::Kind::collective || op.bytes == 0) continue;
    if (hangs && op.end == *hangs) continue;  // it waits for ever, and moves nothing
    const auto group = groups.of(op);
    if (!group) ++out.not_placed;
    if (!group || group->options.ranks < 2) continue;
    const CollectiveRequest request = request_of(run, op.collective, op.transport, op.bytes, *group, rank);
    auto found = known.find(request);
    if (found == known.end()) found = known.emplace(request, loads_of(machine, cost, request, rank)).first;
    for (std::size_t link = 0; link < links.size(); ++link) {
      if (found->second.bytes[link] <= 0) continue;
      links[link].most = std::max(links[link].most, found->second.most[link]);
      links[link].transfers.push_back(
          {begins.of(op), op.end, found->second.bytes[link], view.of_run ? i : kNoDeviceOp});
    }
  }
  for (const LinkClass link : kEnumValues<LinkClass>) {
    LinkLoad& own = links[static_cast<std::size_t>(link)];
    if (own.transfers.empty()) continue;
    own.link = link;
    std::stable_sort(own.transfers.begin(), own.transfers.end(),
                     [](const LinkTransfer& a, const LinkTransfer& b) { return a.begin < b.begin; });
    out.links.push_back(std::move(own));
  }
  return out;
}

}  // namespace

LinkLoads link_loads(const Run& run, const Workload* workload, const MachineProfile& machine) {
  const std::uint32_t rank = run.ranks.empty() ? 0 : run.ranks.front().rank;
  return loads_of_view(run, workload, machine, {rank, rank, run.device_ops});
}

LinkLoads link_loads_of_rank(const Run& run, const Workload* workload, const MachineProfile& machine,
                             std::uint32_t rank, std::uint32_t alike) {
  std::vector<DeviceOpRecord> ops;
  for (const RankOpRecord& row : run.rank_ops)
    if (row.rank == alike) ops.push_back(row.op);
  return loads_of_view(run, workload, machine, {rank, alike, ops, false});
}

}  // namespace foreshard::sim
