#include "sim/network/fabric.hpp"

#include <algorithm>

namespace foreshard::sim {

double adapter_slowdown(const Network& network, std::uint32_t gpus, std::uint32_t node, std::uint32_t rail) {
  double slowdown = 1;
  for (const SlowAdapter& slow : network.slow_adapters) {
    if (slow.node == node && slow.adapter == adapter_of(network, gpus, rail))
      slowdown = std::max(slowdown, slow.slowdown);
  }
  return slowdown;
}

double adapter_capacity(const Network& network, std::uint32_t gpus, std::uint32_t node, std::uint32_t rail) {
  return 1 / adapter_slowdown(network, gpus, node, rail) - network.background.adapters;
}

Fabric::Fabric(const Network& network, std::uint32_t gpus, std::uint32_t nodes, std::uint32_t rail) : nodes_(nodes) {
  for (const Link::Kind kind : {Link::Kind::adapter_out, Link::Kind::adapter_in})
    for (std::uint32_t node = 0; node < nodes; ++node)
      links_.push_back({kind, node, 0, adapter_capacity(network, gpus, node, rail)});
  if (network.group_nodes > 0) {
    add_dragonfly(network);
    return;
  }
  // Rails that messages change in the switches are linked above even one leaf.
  if (network.leaf_nodes == 0 || (nodes <= network.leaf_nodes && !changes_rail_in_switches(network))) return;
  const double of_leaf = network.leaf_nodes / network.oversubscription * (1 - network.background.uplinks);
  add_level(network.leaf_nodes, of_leaf);
  if (network.pod_nodes > network.leaf_nodes && nodes > network.pod_nodes)
    add_level(network.pod_nodes, of_leaf * network.pod_nodes / network.leaf_nodes / network.pod_oversubscription);
}

void Fabric::add_level(std::uint32_t below, double uplinks) {
  levels_.push_back({below, static_cast<std::uint32_t>(links_.size())});
  for (std::uint32_t place = 0; place * below < nodes_; ++place)
    for (const Link::Kind kind : {Link::Kind::up, Link::Kind::down}) links_.push_back({kind, place, 0, uplinks});
}

/// Every group has links to every other one, equally many, and sends all it can over them together.
void Fabric::add_dragonfly(const Network& network) {
  group_nodes_ = network.group_nodes;
  groups_ = (nodes_ + group_nodes_ - 1) / group_nodes_;
  first_global_ = static_cast<std::uint32_t>(links_.size());
  if (groups_ < 2) return;
  const double of_pair = group_nodes_ / network.oversubscription / (groups_ - 1) * (1 - network.background.uplinks);
  for (std::uint32_t a = 0; a < groups_; ++a)
    for (std::uint32_t b = 0; b < groups_; ++b) links_.push_back({Link::Kind::global, a, b, of_pair});
}

std::uint32_t Fabric::route(std::uint32_t a, std::uint32_t b, std::vector<std::uint32_t>& way) const {
  if (group_nodes_ > 0) {
    const std::uint32_t from = a / group_nodes_, to = b / group_nodes_;
    if (from == to) return 0;
    way.push_back(first_global_ + from * groups_ + to);
    return 1;
  }
  return climb(a, b, 0, way);
}

std::uint32_t Fabric::route_to_other_rail(std::uint32_t a, std::uint32_t b, std::vector<std::uint32_t>& way) const {
  return group_nodes_ > 0 ? route(a, b, way) : climb(a, b, 1, way);
}

std::uint32_t Fabric::climb(std::uint32_t a, std::uint32_t b, std::size_t leaves,
                            std::vector<std::uint32_t>& way) const {
  std::uint32_t left = 0;
  for (const Level& level : levels_) {
    if (left >= leaves && a / level.below == b / level.below) break;
    way.push_back(level.first_link + 2 * (a / level.below));
    way.push_back(level.first_link + 2 * (b / level.below) + 1);
    ++left;
  }
  return left;
}

std::vector<std::vector<std::uint32_t>> Fabric::above(std::uint32_t node) const {
  std::vector<std::vector<std::uint32_t>> out;
  if (group_nodes_ > 0 && groups_ > 1) {
    const std::uint32_t from = node / group_nodes_;
    out.emplace_back();
    for (std::uint32_t to = 0; to < groups_; ++to)
      if (to != from) out.back().push_back(first_global_ + from * groups_ + to);
  }
  for (const Level& level : levels_) out.push_back({level.first_link + 2 * (node / level.below)});
  return out;
}

}  // namespace foreshard::sim
