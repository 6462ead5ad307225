#include "sim/link_load/link_fit.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "core/settings/mesh_groups.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/link_load/run_groups.hpp"
#include "sim/link_load/run_requests.hpp"
#include "sim/network/fabric.hpp"

namespace foreshard::sim {
namespace {

CollectiveRequest request_for(const Run& run, const GroupReading& reading) {
  const std::vector<std::uint32_t>& ranks = reading.ranks;
  const std::uint32_t stride = ranks[1] - ranks[0];
  const auto count = static_cast<std::uint32_t>(ranks.size());
  const ProcessGroup group{{}, count, stride};
  return request_of(
      run, reading.kind, reading.transport, reading.bytes,
      {{{}, count, group.ranks_per_node(run.settings.gpus), {}, node_stride(run.settings, stride), run.settings.nodes},
       stride},
      ranks[0]);
}

/// What a job with one slow link takes for its collectives; NCCL chooses as where none is.
class WithSlowLink {
 public:
  WithSlowLink(const MachineProfile& healthy, const SuspectLink& link, double slowdown) : machine_(healthy) {
    SuspectLink slow = link;
    slow.slow_adapter.slowdown = slow.slow_link.slowdown = slowdown;
    if (slow.adapter)
      machine_.network.slow_adapters.push_back(slow.slow_adapter);
    else
      machine_.links.slow_links.push_back(slow.slow_link);
    cost_.emplace(machine_, healthy);
  }
  WithSlowLink(const WithSlowLink&) = delete;
  WithSlowLink& operator=(const WithSlowLink&) = delete;
  [[nodiscard]] double time(const CollectiveRequest& request) const {
    return static_cast<double>(cost_->price(request).time.count);
  }

 private:
  MachineProfile machine_;
  std::optional<ModelledCollectives> cost_;
};

/// So slow that every collective over it shows it.
constexpr double kMuchSlower = 64;

class Blame {
 public:
  Blame(const Run& run, const RanksFit& fit, const MachineProfile& machine)
      : run_(run), fit_(fit), machine_(machine), healthy_(machine) {}

  [[nodiscard]] std::vector<SuspectLink> suspects() const {
    std::vector<SuspectLink> out;
    for (SuspectLink& link : links_of(fit_.groups.front().ranks)) {
      const WithSlowLink slow(machine_, link, kMuchSlower);
      const auto longer = [&](const GroupFit& group) { return makes_longer(slow, group); };
      if (!std::all_of(fit_.groups.begin(), fit_.groups.end(), longer)) continue;
      if (std::any_of(fit_.alike_groups.begin(), fit_.alike_groups.end(),
                      [&](const GroupFit& group) { return group.time.most.value <= 1 + kAlikeLinks && longer(group); }))
        continue;
      link.slow_adapter.slowdown = link.slow_link.slowdown = slowdown_of(link);
      out.push_back(link);
    }
    return out;
  }

 private:
  /// Every link that a collective of these ranks can go over.
  [[nodiscard]] std::vector<SuspectLink> links_of(const std::vector<std::uint32_t>& ranks) const {
    std::vector<SuspectLink> out;
    std::set<std::pair<std::uint32_t, std::uint32_t>> adapters;
    const std::uint32_t gpus = run_.settings.gpus;
    for (const std::uint32_t rank : ranks) {
      out.push_back({false, {}, {rank, 1}});
      if (machine_.network.nics > 0)
        adapters.emplace(rank / gpus, adapter_of(machine_.network, machine_.links.gpus, rank % gpus));
    }
    for (const auto& [node, adapter] : adapters) out.push_back({true, {node, adapter, 1}, {}});
    return out;
  }

  [[nodiscard]] bool makes_longer(const WithSlowLink& slow, const GroupFit& group) const {
    const CollectiveRequest request = request_for(run_, group.clearest);
    return slow.time(request) > (1 + kAlikeLinks) * static_cast<double>(healthy_.price(request).time.count);
  }

  /// Such that what is known best of the slow groups' collectives takes as much longer as it does.
  [[nodiscard]] double slowdown_of(const SuspectLink& link) const {
    const GroupFit& group =
        *std::min_element(fit_.groups.begin(), fit_.groups.end(), [](const GroupFit& a, const GroupFit& b) {
          return a.clearest.least * b.clearest.most > b.clearest.least * a.clearest.most;
        });
    const CollectiveRequest request = request_for(run_, group.clearest);
    const double wanted = group.clearest_least * static_cast<double>(healthy_.price(request).time.count);
    double low = 1, high = kMuchSlower;
    while (WithSlowLink(machine_, link, high).time(request) < wanted && high < 1e6) high *= 2;
    while (high > low * (1 + 1e-4)) {
      const double middle = std::sqrt(low * high);
      (WithSlowLink(machine_, link, middle).time(request) < wanted ? low : high) = middle;
    }
    return high;
  }

  const Run& run_;
  const RanksFit& fit_;
  const MachineProfile& machine_;
  ModelledCollectives healthy_;
};

AgainstProfile against_profile(const Run& run, const RanksFit& fit, const MachineProfile& machine) {
  const ModelledCollectives cost(machine);
  AgainstProfile out;
  out.known = machine.prediction.collectives;
  std::vector<straggler_detail::WeightedRange> samples;
  MachineUse use;
  use.nodes = run.settings.nodes;
  for (const GroupReading& reading : fit.readings) {
    if (reading.bytes < kPricedBytes) continue;
    const double price = static_cast<double>(cost.price(request_for(run, reading)).time.count);
    samples.push_back({reading.least / price, reading.most / price, reading.least * reading.count});
    use.largest_collective = std::max(use.largest_collective, reading.bytes);
    use.ranks.push_back(static_cast<std::uint32_t>(reading.ranks.size()));
    use.transports.push_back(reading.transport);
  }
  out.time = straggler_detail::factor_range(samples);
  out.outside = outside(machine.valid_range, machine.name, use);
  return out;
}

}  // namespace

bool AgainstProfile::differs() const {
  const FittedFactor sure = time.sure();
  return sure.value > 1 && sure.differs(std::expm1(known));
}

LinkFit fit_links(const Run& run, const RanksFit& fit, const MachineProfile& machine) {
  LinkFit out;
  if (!fit.groups.empty()) out.suspects = Blame(run, fit, machine).suspects();
  out.against = against_profile(run, fit, machine);
  return out;
}

}  // namespace foreshard::sim
