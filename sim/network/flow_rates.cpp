#include "sim/network/flow_rates.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/check.hpp"

namespace foreshard::sim {
namespace {

std::int64_t units(double value) {
  FORESHARD_CHECK(value > 0 && value <= FlowRates::kLargest, "a share, rate or capacity of a link out of range");
  return std::max<std::int64_t>(1, std::llround(value * static_cast<double>(FlowRates::kWholeRate)));
}

}  // namespace

FlowRates::FlowRates(std::span<const double> capacity) : links_(capacity.size()) {
  for (std::uint32_t l = 0; l < capacity.size(); ++l) set_capacity(l, capacity[l]);
  left_.clear();
}

void FlowRates::set_capacity(std::uint32_t link, double capacity) {
  links_[link].capacity = capacity == 0 ? 0 : Wide{units(capacity)} * kWholeRate;
  left_.push_back(link);
}

FlowRates::FlowId FlowRates::begin(std::span<const LinkShare> shares, double most) {
  std::uint32_t id = static_cast<std::uint32_t>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  OneFlow& flow = flows_[id];
  flow.most = units(most);
  flow.rate = -1;  // none yet
  flow.there = true;
  flow.parts.clear();
  for (const LinkShare& share : shares) {
    flow.parts.push_back({share.link, units(share.share)});
    links_[share.link].at_most += Wide{flow.parts.back().share} * flow.most;
    links_[share.link].flows.push_back(id);
  }
  begun_.push_back(id);
  return {id};
}

void FlowRates::end(FlowId gone) {
  OneFlow& flow = flows_[gone.value];
  FORESHARD_CHECK(flow.there, "a flow ends once");
  for (const Part& part : flow.parts) {
    OneLink& link = links_[part.link];
    if (link.can_fill()) left_.push_back(part.link);
    link.at_most -= Wide{part.share} * flow.most;
    link.flows.erase(std::find(link.flows.begin(), link.flows.end(), gone.value));
  }
  flow.rate = 0;
  flow.there = false;
  flow.parts.clear();
  free_.push_back(gone.value);
}

void FlowRates::settle() {
  find_component();
  fill();
  note_changes();
  begun_.clear();
  left_.clear();
}

void FlowRates::visit(std::uint32_t flow) {
  if (flows_[flow].seen == visit_) return;
  flows_[flow].seen = visit_;
  component_.push_back(flow);
}

/// What hangs together with flows that have begun, with what flows that have ended left, or with links that changed.
void FlowRates::find_component() {
  ++visit_;
  component_.clear();
  joined_.clear();
  for (const std::uint32_t flow : begun_)
    if (flows_[flow].there) visit(flow);
  for (const std::uint32_t link : left_)
    for (const std::uint32_t flow : links_[link].flows) visit(flow);
  for (std::size_t i = 0; i < component_.size(); ++i)
    for (const Part& part : flows_[component_[i]].parts) {
      OneLink& link = links_[part.link];
      if (link.seen == visit_ || !link.can_fill()) continue;
      link.seen = visit_;
      joined_.push_back(part.link);
      for (const std::uint32_t other : link.flows) visit(other);
    }
}

void FlowRates::fill() {
  before_.clear();
  for (const std::uint32_t flow : component_) before_.push_back(flows_[flow].rate);
  for (const std::uint32_t l : joined_) {
    links_[l].left = links_[l].capacity;
    links_[l].asked = 0;
  }
  for (const std::uint32_t flow : component_) {
    flows_[flow].open = true;
    for (const Part& part : flows_[flow].parts)
      if (links_[part.link].seen == visit_) links_[part.link].asked += part.share;
  }
  levels_.clear();
  for (const std::uint32_t l : joined_)
    if (links_[l].asked > 0) levels_.push_back({links_[l].level(), l});
  std::make_heap(levels_.begin(), levels_.end(), std::greater<>());
  std::vector<std::uint32_t> found = component_;
  std::sort(component_.begin(), component_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(flows_[a].most, a) < std::pair(flows_[b].most, b);
  });
  for (std::size_t by_most = 0; by_most < component_.size();) next_stops(by_most);
  component_.swap(found);
}

/// Raises all open flows to where one has its `most` or a link is full, and stops all those at once: so no order among
/// them decides.
void FlowRates::next_stops(std::size_t& by_most) {
  while (by_most < component_.size() && !flows_[component_[by_most]].open) ++by_most;
  if (by_most == component_.size()) return;
  std::int64_t at = flows_[component_[by_most]].most;
  stops_.clear();
  while (!levels_.empty() && levels_.front().at <= at) {
    const std::uint32_t l = levels_.front().link;
    std::pop_heap(levels_.begin(), levels_.end(), std::greater<>());
    levels_.pop_back();
    OneLink& link = links_[l];
    if (link.asked == 0) continue;
    if (const std::int64_t now = link.level(); now > at || (!levels_.empty() && now > levels_.front().at)) {
      levels_.push_back({now, l});  // flows that stopped since have left it more
      std::push_heap(levels_.begin(), levels_.end(), std::greater<>());
      continue;
    } else {
      at = now;
    }
    for (const std::uint32_t flow : link.flows)
      if (flows_[flow].open) stops_.push_back(flow);
  }
  for (std::size_t i = by_most; i < component_.size() && flows_[component_[i]].most <= at; ++i)
    stops_.push_back(component_[i]);
  for (const std::uint32_t flow : stops_)
    if (flows_[flow].open) stop(flow, at);
}

void FlowRates::stop(std::uint32_t id, std::int64_t rate) {
  OneFlow& flow = flows_[id];
  flow.open = false;
  flow.rate = std::max<std::int64_t>(1, rate);
  for (const Part& part : flow.parts) {
    OneLink& link = links_[part.link];
    if (link.capacity == 0) flow.rate = 0;
    if (link.seen != visit_) continue;
    link.asked -= part.share;
    link.left -= Wide{part.share} * rate;
  }
}

void FlowRates::note_changes() {
  changed_.clear();
  for (std::size_t i = 0; i < component_.size(); ++i)
    if (flows_[component_[i]].rate != before_[i]) changed_.push_back({component_[i]});
  std::sort(changed_.begin(), changed_.end());
}

}  // namespace foreshard::sim
