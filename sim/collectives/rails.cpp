#include "sim/collectives/rails.hpp"

#include <algorithm>
#include <map>

#include "sim/collectives/network_rate.hpp"

namespace foreshard::sim {
namespace {

/// Of the member that many after the group's first.
std::uint32_t adapter_of_member(const MachineProfile& machine, const Group& group, std::uint32_t member) {
  const std::uint32_t ranks = node_ranks(machine, group);
  const std::uint32_t rail = (group.first_rank.value_or(0) + member * group.rank_stride) % ranks;
  return adapter_of(machine.network, machine.links.gpus, rail);
}

}  // namespace

double other_rail_share(const MachineProfile& machine, const Group& group, NodePattern pattern) {
  const auto members = static_cast<std::uint32_t>(group.per_node);
  if (group.one_node() || members < 2) return 0;
  // The last rank on a node sends to the first one on the next.
  if (pattern == NodePattern::send)
    return adapter_of_member(machine, group, members - 1) != adapter_of_member(machine, group, members) ? 1 : 0;
  if (pattern != NodePattern::all_to_all) return 0;
  std::map<std::uint32_t, double> on;
  for (std::uint32_t i = 0; i < members; ++i) on[adapter_of_member(machine, group, i)] += 1 / group.per_node;
  double same = 0;
  for (const auto& [adapter, share] : on) same += share * share;
  return std::max(0.0, 1 - same);
}

bool relays_by_pxn(const MachineProfile& machine) {
  return machine.network.pxn && !machine.links.pcie;
}

bool rails_apart(const MachineProfile& machine) {
  return !machine.network.rails_linked && !relays_by_pxn(machine);
}

double other_rail_in_switches(const MachineProfile& machine, const Group& group, NodePattern pattern) {
  const bool by_switches = machine.network.rail_switches && machine.network.rails_linked && !relays_by_pxn(machine);
  return by_switches ? other_rail_share(machine, group, pattern) : 0;
}

}  // namespace foreshard::sim
