#include "sim/network/flow_rates.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/check.hpp"

namespace foreshard::sim {

std::int64_t FlowRates::units(double value) {
  FORESHARD_CHECK(value > 0 && value <= kLargest, "a share, rate or capacity of a link out of range");
  return std::max<std::int64_t>(1, std::llround(value * static_cast<double>(kWholeRate)));
}

FlowRates::FlowRates(std::span<const double> capacity) : links_(capacity.size()), full_(capacity.size(), kNotFull) {
  for (std::uint32_t l = 0; l < capacity.size(); ++l) set_capacity(l, capacity[l]);
  left_.clear();
}

void FlowRates::set_capacity(std::uint32_t link, double capacity) {
  links_[link].capacity = capacity == 0 ? 0 : Wide{units(capacity)} * kWholeRate;
  left_.push_back(link);
}

FlowRates::FlowId FlowRates::begin(std::span<const LinkShare> shares, double most) {
  std::vector<Part> parts;
  for (const LinkShare& share : shares) parts.push_back({share.link, units(share.share)});
  return begin(parts, units(most));
}

FlowRates::FlowId FlowRates::begin(std::span<const Part> parts, std::int64_t most) {
  std::uint32_t id = static_cast<std::uint32_t>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  OneFlow& flow = flows_[id];
  flow.most = most;
  flow.rate = -1;  // none yet
  flow.there = true;
  flow.parts.assign(parts.begin(), parts.end());
  for (const Part& part : parts) {
    links_[part.link].at_most += Wide{part.share} * most;
    links_[part.link].flows.push_back({id, part.share});
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
    const auto is_gone = [&](const OnLink& on) { return on.flow == gone.value; };
    link.flows.erase(std::find_if(link.flows.begin(), link.flows.end(), is_gone));
  }
  flow.rate = 0;
  flow.there = false;
  flow.parts.clear();
  free_.push_back(gone.value);
}

void FlowRates::settle() {
  ++visit_;
  looked_at_.clear();
  begin_flows();
  for (const std::uint32_t link : left_) {
    for (const OnLink& on : links_[link].flows) look_at(on.flow);  // also where it carries nothing, or does again
    check_link(link);
  }
  while (!dirty_.empty()) {
    std::pop_heap(dirty_.begin(), dirty_.end(), std::greater<>());
    const std::uint32_t link = dirty_.back().link;
    dirty_.pop_back();
    const std::int64_t at = full_at(link);
    if (at == full_[link]) continue;
    const Dirty now{std::min(at, full_[link]), link};
    if (!dirty_.empty() && dirty_.front() < now)
      push(now);  // what it rests on may still change
    else
      set_full(link, at);
  }
  note_changes();
  begun_.clear();
  left_.clear();
}

void FlowRates::look_at(std::uint32_t flow) {
  if (flows_[flow].seen == visit_) return;
  flows_[flow].seen = visit_;
  looked_at_.push_back(flow);
}

void FlowRates::begin_flows() {
  for (const std::uint32_t id : begun_) {
    if (!flows_[id].there) continue;
    look_at(id);
    find_lowest(flows_[id]);
  }
  for (const std::uint32_t id : begun_)
    for (const Part& part : flows_[id].parts) check_link(part.link);
}

/// A link whose flows are others, or may stop elsewhere at another rate.
void FlowRates::check_link(std::uint32_t link) {
  const std::int64_t at = full_at(link);
  if (at != full_[link]) push({std::min(at, full_[link]), link});
}

void FlowRates::push(Dirty dirty) {
  dirty_.push_back(dirty);
  std::push_heap(dirty_.begin(), dirty_.end(), std::greater<>());
}

/// All flows of the link are raised together, each until it stops elsewhere: where it is full.
std::int64_t FlowRates::full_at(std::uint32_t index) {
  const OneLink& link = links_[index];
  if (!link.can_fill()) return kNotFull;
  asks_.clear();
  std::int64_t asked = 0;
  for (const OnLink& on : link.flows) {
    asks_.push_back({stops_elsewhere(flows_[on.flow], index), on.share});
    asked += on.share;
  }
  std::sort(asks_.begin(), asks_.end(), [](const Asks& a, const Asks& b) { return a.rate < b.rate; });
  // No flow's `most` is above kLargest, and a wide link that is asked for little could give more than 63 bits hold.
  constexpr std::int64_t kHighest = static_cast<std::int64_t>(kLargest) * kWholeRate;
  Wide left = link.capacity;
  for (const Asks& asks : asks_) {
    if (left < Wide{asked} * (asks.rate + 1)) return static_cast<std::int64_t>(left / asked);
    if (asks.rate >= kHighest) return kHighest;
    left -= Wide{asks.share} * asks.rate;
    asked -= asks.share;
  }
  return kNotFull;
}

void FlowRates::set_full(std::uint32_t index, std::int64_t at) {
  const std::int64_t before = full_[index];
  full_[index] = at;
  moved_.clear();
  for (const OnLink& on : links_[index].flows) {
    const std::int64_t stopped_at = flows_[on.flow].stops_at();
    take(flows_[on.flow], before, at);
    if (flows_[on.flow].stops_at() != stopped_at) moved_.push_back(on.flow);
  }
  for (const std::uint32_t flow : moved_) {
    look_at(flow);
    for (const Part& part : flows_[flow].parts)
      if (part.link != index) check_link(part.link);
  }
}

/// A link of the flow is full at another rate.
void FlowRates::take(OneFlow& flow, std::int64_t before, std::int64_t at) {
  Lowest& lowest = flow.lowest;
  if (before == lowest.rate) --lowest.links;
  if (before == lowest.next) lowest.next_is_known = false;
  if (at < lowest.rate) {
    if (lowest.links > 0) {
      lowest.next = lowest.rate;
      lowest.next_is_known = true;
    }
    lowest.rate = at;
    lowest.links = 1;
  } else if (at == lowest.rate) {
    ++lowest.links;
  } else if (lowest.links == 0) {
    find_lowest(flow);
  } else {
    lowest.next = std::min(lowest.next, at);
  }
}

void FlowRates::find_lowest(OneFlow& flow) {
  Lowest out{kNotFull, 0, true, kNotFull};
  for (const Part& part : flow.parts) {
    const std::int64_t at = full_[part.link];
    if (at < out.rate) {
      out.next = out.rate;
      out.rate = at;
      out.links = 0;
    } else if (at > out.rate) {
      out.next = std::min(out.next, at);
    }
    if (at == out.rate) ++out.links;
  }
  flow.lowest = out;
}

/// At its `most`, or where another link of it is full.
std::int64_t FlowRates::stops_elsewhere(OneFlow& flow, std::uint32_t link) {
  if (full_[link] != flow.lowest.rate || flow.lowest.links > 1) return flow.stops_at();
  if (!flow.lowest.next_is_known) find_lowest(flow);
  return std::min(flow.most, flow.lowest.next);
}

void FlowRates::note_changes() {
  changed_.clear();
  for (const std::uint32_t id : looked_at_) {
    OneFlow& flow = flows_[id];
    std::int64_t rate = std::max<std::int64_t>(1, flow.stops_at());
    const auto is_down = [&](const Part& part) { return links_[part.link].capacity == 0; };
    if (flow.stops_at() == 0 && std::any_of(flow.parts.begin(), flow.parts.end(), is_down)) rate = 0;
    if (rate != flow.rate) changed_.push_back({id});
    flow.rate = rate;
  }
  std::sort(changed_.begin(), changed_.end());
}

}  // namespace foreshard::sim
