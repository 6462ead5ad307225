#include "sim/collectives/network_rate.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/collectives/rails.hpp"
#include "sim/network/max_min.hpp"

namespace foreshard::sim {
namespace {

/// The groups of a mesh dimension, by first node.
std::vector<Placement> side_by_side(const Group& group) {
  const auto count = static_cast<std::uint32_t>(group.nodes);
  const auto stride = static_cast<std::uint32_t>(group.node_stride);
  const std::uint32_t block = count * stride;  // nodes of the groups that interleave
  const std::uint32_t nodes = std::max(static_cast<std::uint32_t>(group.all_nodes), block);
  std::vector<Placement> out;
  for (std::uint32_t begin = 0; begin + block <= nodes; begin += block)
    for (std::uint32_t first = begin; first < begin + stride; ++first) out.push_back({first, stride, count});
  return out;
}

/// Rails on which a group's members are: they lie `rank_stride` apart on each node. Healthy rails are alike.
std::vector<std::uint32_t> rails_of(const MachineProfile& machine, const Group& group) {
  if (machine.network.slow_adapters.empty()) return {0};
  std::vector<std::uint32_t> rails;
  const std::uint32_t ranks = node_ranks(machine, group);
  const std::uint32_t stride = group.first_rank ? std::max(1U, group.rank_stride) : 1;
  const auto count = group.first_rank ? static_cast<std::uint32_t>(group.per_node) : ranks;
  for (std::uint32_t i = 0; i < count; ++i) rails.push_back((group.first_rank.value_or(0) + i * stride) % ranks);
  return rails;
}

/// Of all groups side by side, by first node.
std::map<std::uint32_t, NetworkRate> on_rail(const MachineProfile& machine, const Group& group, NodePattern pattern,
                                             std::uint32_t rail) {
  const std::vector<Placement> groups = side_by_side(group);
  const std::uint32_t nodes = groups.back().node(groups.back().count - 1) + 1;
  const Fabric fabric(machine.network, machine.links.gpus, nodes, rail);
  std::vector<Traffic> traffics;
  std::vector<Flow> flows;
  const double other_rail = other_rail_in_switches(machine, group, pattern);
  for (const Placement& one : groups) traffics.push_back(traffic(fabric, one, pattern, other_rail));
  for (const Traffic& one : traffics) flows.push_back({one.shares, 1});
  std::vector<double> capacity;
  for (const Link& link : fabric.links()) capacity.push_back(link.capacity);
  const std::vector<double> rates = max_min_rates(capacity, flows);
  std::map<std::uint32_t, NetworkRate> out;
  for (std::size_t i = 0; i < groups.size(); ++i)
    out[groups[i].first] = {rates[i], traffics[i].levels, traffics[i].longest_step};
  return out;
}

NetworkRate slower(const NetworkRate& a, const NetworkRate& b) {
  return {std::min(a.rate, b.rate), std::max(a.levels, b.levels), std::max(a.step, b.step)};
}

/// The group at `first_rank`; where none begins on its node (groups that do not fill whole nodes), or none is named,
/// the slowest.
NetworkRate of_group(const MachineProfile& machine, const Group& group,
                     const std::map<std::uint32_t, NetworkRate>& rates) {
  if (group.first_rank)
    if (const auto found = rates.find(*group.first_rank / node_ranks(machine, group)); found != rates.end())
      return found->second;
  NetworkRate out;
  for (const auto& [node, rate] : rates) out = slower(out, rate);
  return out;
}

/// At a share that is said of what the group reaches alone.
NetworkRate at_rate(const MachineProfile& machine, const Group& group, NodePattern pattern) {
  const Placement placement = placement_of(group, node_ranks(machine, group));
  // A dragonfly's groups are linked by as many links as there are of them.
  const std::uint32_t nodes =
      std::max(static_cast<std::uint32_t>(group.all_nodes), placement.node(placement.count - 1) + 1);
  NetworkRate out;
  for (const std::uint32_t rail : rails_of(machine, group)) {
    const Fabric fabric(machine.network, machine.links.gpus, nodes, rail);
    const Traffic own = traffic(fabric, placement, pattern, other_rail_in_switches(machine, group, pattern));
    for (const LinkShare& share : own.shares)
      out.rate = std::min(out.rate, fabric.links()[share.link].capacity / share.share);
    out.levels = own.levels;
    out.step = own.longest_step;
  }
  out.rate *= group.network_rate;
  return out;
}

bool alike(const MachineProfile& machine, const Group& group) {
  const Network& network = machine.network;
  return group.one_node() || (network.leaf_nodes == 0 && network.group_nodes == 0 && network.slow_adapters.empty() &&
                              !network.background.any());
}

}  // namespace

std::uint32_t node_ranks(const MachineProfile& machine, const Group& group) {
  return group.node_ranks > 0 ? group.node_ranks : machine.links.gpus;
}

Placement placement_of(const Group& group, std::uint32_t node_ranks) {
  return {group.first_rank.value_or(0) / node_ranks, static_cast<std::uint32_t>(group.node_stride),
          static_cast<std::uint32_t>(group.nodes)};
}

double rail_bandwidth(const MachineProfile& machine) {
  const Network& network = machine.network;
  return network.nics * network.nic * network.efficiency / machine.links.gpus;
}

NetworkRate network_rate(const MachineProfile& machine, const Group& group, NodePattern pattern) {
  NetworkRate out;
  if (group.network_rate > 0 && !group.one_node()) return at_rate(machine, group, pattern);
  if (alike(machine, group)) return out;
  for (const std::uint32_t rail : rails_of(machine, group))
    out = slower(out, of_group(machine, group, on_rail(machine, group, pattern, rail)));
  return out;
}

std::map<std::uint32_t, std::vector<RingHopRate>> ring_hop_rates(const MachineProfile& machine, const Group& group,
                                                                 std::uint32_t rail) {
  struct Step {
    std::vector<std::uint32_t> links;
    std::uint32_t levels = 0;
  };
  const std::vector<Placement> groups = side_by_side(group);
  const Fabric fabric(machine.network, machine.links.gpus, groups.back().node(groups.back().count - 1) + 1, rail);
  std::vector<std::vector<Step>> steps(groups.size());
  std::vector<std::uint32_t> load(fabric.links().size());
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::uint32_t i = 0; i < groups[g].count; ++i) {
      const std::uint32_t from = groups[g].node(i), to = groups[g].node((i + 1) % groups[g].count);
      Step step{{fabric.adapter_out(from), fabric.adapter_in(to)}};
      step.levels = fabric.route(from, to, step.links);
      for (const std::uint32_t link : step.links) ++load[link];
      steps[g].push_back(std::move(step));
    }
  std::map<std::uint32_t, std::vector<RingHopRate>> out;
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const Step& step : steps[g]) {
      RingHopRate hop{1, static_cast<double>(step.levels)};
      for (const std::uint32_t link : step.links)
        hop.rate = std::min(hop.rate, fabric.links()[link].capacity / load[link]);
      out[groups[g].first].push_back(hop);
    }
  return out;
}

std::vector<UplinkLoad> uplink_loads(const MachineProfile& machine, const Group& group, NodePattern pattern) {
  if (group.one_node()) return {};
  const std::vector<Placement> groups = side_by_side(group);
  const std::uint32_t ranks = node_ranks(machine, group);
  const std::uint32_t first = group.first_rank.value_or(0);
  const std::uint32_t nodes = std::max({static_cast<std::uint32_t>(group.all_nodes), first / ranks + 1,
                                        groups.back().node(groups.back().count - 1) + 1});
  const Fabric fabric(machine.network, machine.links.gpus, nodes, first % ranks);
  std::vector<double> load(fabric.links().size());
  const double other_rail = other_rail_in_switches(machine, group, pattern);
  for (const Placement& one : groups)
    for (const LinkShare& share : traffic(fabric, one, pattern, other_rail).shares) load[share.link] += share.share;
  std::vector<UplinkLoad> out;
  for (const std::vector<std::uint32_t>& level : fabric.above(first / ranks)) {
    const std::uint32_t most = *std::max_element(level.begin(), level.end(),
                                                 [&](std::uint32_t a, std::uint32_t b) { return load[a] < load[b]; });
    out.push_back({fabric.links()[most], load[most]});
  }
  return out;
}

double link_slowdown(const MachineProfile& machine, const CollectiveRequest& request) {
  double slowdown = 1;
  if (request.ranks_per_node < 2) return slowdown;  // nothing of it goes over NVLink
  for (const SlowLink& slow : machine.links.slow_links) {
    const std::uint32_t stride = std::max(1U, request.rank_stride);
    const std::uint32_t from = request.first_rank.value_or(0);
    const bool member =
        slow.rank >= from && (slow.rank - from) % stride == 0 && (slow.rank - from) / stride < request.ranks;
    if (member || !request.first_rank) slowdown = std::max(slowdown, slow.slowdown);
  }
  return slowdown;
}

GroupLinks LinksOfGroups::of(const CollectiveRequest& request) {
  const Group group = group_of(request);
  GroupLinks out;
  out.link_slowdown = link_slowdown(machine_, request);
  if (alike(machine_, group)) return out;
  for (const NodePattern pattern : node_patterns(machine_.network))
    for (const std::uint32_t rail : rails_of(machine_, group)) {
      const Shape shape{static_cast<std::uint32_t>(group.nodes),
                        static_cast<std::uint32_t>(group.node_stride),
                        request.all_nodes,
                        rail,
                        pattern,
                        other_rail_in_switches(machine_, group, pattern)};
      const auto [known, added] = known_.try_emplace(shape);
      if (added) known->second = on_rail(machine_, group, pattern, rail);
      NetworkRate& rate = out.network[static_cast<std::size_t>(pattern)];
      rate = slower(rate, of_group(machine_, group, known->second));
    }
  return out;
}

}  // namespace foreshard::sim
