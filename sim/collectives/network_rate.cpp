#include "sim/collectives/network_rate.hpp"

#include <algorithm>
#include <vector>

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
  const std::uint32_t gpus = machine.links.gpus;
  const std::uint32_t stride = group.first_rank ? std::max(1U, group.rank_stride) : 1;
  const auto count = group.first_rank ? static_cast<std::uint32_t>(group.per_node) : gpus;
  for (std::uint32_t i = 0; i < count; ++i) rails.push_back((group.first_rank.value_or(0) + i * stride) % gpus);
  return rails;
}

NetworkRate on_rail(const MachineProfile& machine, const Group& group, NodePattern pattern, std::uint32_t rail) {
  const std::vector<Placement> groups = side_by_side(group);
  const std::uint32_t nodes = groups.back().node(groups.back().count - 1) + 1;
  const Fabric fabric(machine.network, machine.links.gpus, nodes, rail);
  std::vector<Traffic> traffics;
  std::vector<Flow> flows;
  for (const Placement& one : groups) traffics.push_back(traffic(fabric, one, pattern));
  for (const Traffic& one : traffics) flows.push_back({one.shares, 1});
  std::vector<double> capacity, asked(fabric.links().size());
  for (const Link& link : fabric.links()) capacity.push_back(link.capacity);
  const std::vector<double> rates = max_min_rates(capacity, flows);
  NetworkRate out;
  for (const Traffic& one : traffics) {
    out.levels = std::max(out.levels, one.levels);
    for (const LinkShare& share : one.shares) asked[share.link] += share.share;
  }
  for (std::size_t l = 0; l < asked.size(); ++l) out.busiest = std::max(out.busiest, asked[l] / capacity[l]);
  out.rate = *std::min_element(rates.begin(), rates.end());
  if (!group.first_rank) return out;
  const std::uint32_t first_node = *group.first_rank / machine.links.gpus;
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (groups[i].first == first_node) {
      out.rate = rates[i];
      out.levels = traffics[i].levels;
    }
  return out;
}

}  // namespace

double rail_bandwidth(const MachineProfile& machine) {
  const Network& network = machine.network;
  return std::min(network.nics * network.nic * network.efficiency / machine.links.gpus,
                  network.nic * network.efficiency);
}

NetworkRate network_rate(const MachineProfile& machine, const Group& group, NodePattern pattern) {
  const Network& network = machine.network;
  if (group.one_node()) return {};
  if (network.leaf_nodes == 0 && network.group_nodes == 0 && network.slow_adapters.empty()) return {};
  NetworkRate out;
  for (const std::uint32_t rail : rails_of(machine, group)) {
    const NetworkRate one = on_rail(machine, group, pattern, rail);
    out = {std::min(out.rate, one.rate), std::max(out.levels, one.levels), std::max(out.busiest, one.busiest)};
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

GroupLinks links_of(const MachineProfile& machine, const CollectiveRequest& request) {
  GroupLinks out;
  out.link_slowdown = link_slowdown(machine, request);
  for (const NodePattern pattern : {NodePattern::ring, NodePattern::tree, NodePattern::all_to_all})
    out.network[static_cast<std::size_t>(pattern)] = network_rate(machine, group_of(request), pattern);
  return out;
}

}  // namespace foreshard::sim
