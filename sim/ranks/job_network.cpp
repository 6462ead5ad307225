#include "sim/ranks/job_network.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "core/base/check.hpp"
#include "sim/collectives/network_rate.hpp"
#include "sim/collectives/rails.hpp"

namespace foreshard::sim {
namespace {

constexpr double kAsAlone = 1.01;  ///< a price so close to that alone is that alone
constexpr double kRounding = 1 + 1e-9;

/// One after another the fabrics of all rails, as each one's GPUs see it.
std::vector<Fabric> fabrics_of(const MachineProfile& machine, std::uint32_t nodes, std::uint32_t rails) {
  std::vector<Fabric> out;
  for (std::uint32_t rail = 0; rail < rails; ++rail) out.emplace_back(machine.network, machine.links.gpus, nodes, rail);
  return out;
}

CollectiveRequest placed(const CommunicatorOptions& options, std::uint32_t first, std::uint32_t node_ranks) {
  CollectiveRequest out;
  out.ranks = options.ranks;
  out.ranks_per_node = options.ranks_per_node;
  out.node_stride = options.node_stride;
  out.all_nodes = options.all_nodes;
  out.first_rank = first;
  out.rank_stride = groups_of(options).stride;
  out.node_ranks = node_ranks;
  return out;
}

}  // namespace

JobNetwork::JobNetwork(const MachineProfile& machine, const CollectiveCost& collectives,
                       const std::vector<JobOnNetwork>& jobs, std::uint32_t node_ranks, const std::vector<Flap>& flaps)
    : machine_(machine),
      collectives_(collectives),
      ranks_(0),
      node_ranks_(node_ranks),
      own_ranks_(jobs[0].ranks),
      flaps_(flaps),
      flaps_met_(flaps.size()) {
  const Network& network = machine.network;
  for (const JobOnNetwork& job : jobs) ranks_ += job.ranks;
  if (ranks_ <= node_ranks || (network.leaf_nodes == 0 && network.group_nodes == 0 && flaps_.empty())) return;
  std::vector<bool> adapters;
  const std::uint32_t nodes = (ranks_ + node_ranks - 1) / node_ranks;
  const std::vector<Fabric> fabrics = fabrics_of(machine, nodes, node_ranks);
  find_flapping(fabrics);
  for (const Fabric& fabric : fabrics)
    for (const Link& link : fabric.links()) {
      capacity_.push_back(link.capacity);
      adapters.push_back(link.kind == Link::Kind::adapter_out || link.kind == Link::Kind::adapter_in);
    }
  std::uint32_t begin = 0;
  for (const JobOnNetwork& job : jobs) {
    groups_.resize(std::max(groups_.size(), job.communicators.size()));
    for (std::uint32_t c = 0; c < job.communicators.size(); ++c)
      add_groups(c, job.communicators[c], begin, begin + job.ranks);
    begin += job.ranks;
  }
  keep_links_that_fill(adapters);
  if (meets_) share_links();
}

void JobNetwork::find_flapping(const std::vector<Fabric>& fabrics) {
  const auto links = static_cast<std::uint32_t>(fabrics[0].links().size());
  flap_of_.assign(fabrics.size() * links, kNoFlap);
  for (std::uint32_t f = 0; f < flaps_.size(); ++f) {
    const FlappingLink& link = flaps_[f].link;
    for (std::uint32_t rail = 0; rail < fabrics.size(); ++rail) {
      const Fabric& fabric = fabrics[rail];
      const auto put = [&](std::uint32_t of) {
        flap_of_[rail * links + of] = f;
        flapping_.push_back({rail * links + of});
      };
      if (link.kind == FlappingLink::Kind::uplinks) {
        put(fabric.leaf_uplink(link.place));
        put(fabric.leaf_uplink(link.place) + 1);
      } else if (adapter_of(machine_.network, machine_.links.gpus, rail) == link.adapter) {
        put(fabric.adapter_out(link.place));
        put(fabric.adapter_in(link.place));
      }
    }
  }
}

Nanoseconds JobNetwork::next_change(Nanoseconds at) const {
  Nanoseconds out = kNever;
  for (const Flap& flap : flaps_) out = std::min(out, flap.next_change(at));
  return out;
}

void JobNetwork::change(Nanoseconds at) {
  for (FlappingOne& one : flapping_) {
    const Flap& flap = flaps_[flap_of_[one.link]];
    const double left = flap.is_down(at) ? flap.link.left : 1;
    if (left != one.left) rates_->set_capacity(merged_[one.link], left * capacity_[one.link]);
    one.left = left;
  }
}

void JobNetwork::add_groups(std::uint32_t communicator, const CommunicatorOptions& options, std::uint32_t begin,
                            std::uint32_t end) {
  const std::uint32_t nodes = (ranks_ + node_ranks_ - 1) / node_ranks_;
  const std::vector<Fabric> fabrics = fabrics_of(machine_, nodes, node_ranks_);
  const auto links = static_cast<std::uint32_t>(fabrics[0].links().size());
  const StridedGroups groups = groups_of(options);
  for (std::uint32_t first = begin; first < end; ++first) {
    if (groups.first(first - begin) != first - begin) continue;
    OneGroup& group = groups_[communicator][first];
    group.stride = groups.stride;
    const CollectiveRequest request = placed(options, first, node_ranks_);
    const Group shape = group_of(request);
    const Placement placement = placement_of(shape, node_ranks_);
    if (shape.one_node() || placement.node(placement.count - 1) >= nodes) continue;
    std::set<std::uint32_t> rails;
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(shape.per_node); ++i)
      rails.insert((first + i * groups.stride) % node_ranks_);
    std::vector<double> kind{static_cast<double>(communicator), static_cast<double>(begin),
                             link_slowdown(machine_, request)};
    for (const NodePattern pattern : node_patterns(machine_.network)) {
      const Traffic own = traffic(fabrics[0], placement, pattern, other_rail_in_switches(machine_, shape, pattern));
      std::vector<LinkShare>& shares = group.shares.emplace_back();
      for (const std::uint32_t rail : rails)
        for (const LinkShare& share : own.shares) shares.push_back({rail * links + share.link, share.share});
      kind.insert(kind.end(), {own.levels, own.longest_step, rate_alone(group, pattern)});
    }
    group.kind = kinds_.try_emplace(std::move(kind), static_cast<std::uint32_t>(kinds_.size())).first->second;
  }
}

/// Links that carry all that every group of the job asks for at once, at all times, hold nobody.
void JobNetwork::keep_links_that_fill(const std::vector<bool>& adapters) {
  std::vector<double> asked(capacity_.size());
  std::vector<std::uint32_t> groups(capacity_.size());
  std::vector<std::uint32_t> own(capacity_.size());  // of those of the first job
  for (const auto& of_communicator : groups_)
    for (const auto& [first, group] : of_communicator) {
      std::map<std::uint32_t, double> most;
      for (std::size_t p = 0; p < group.shares.size(); ++p) {
        const double alone = rate_alone(group, kNodePatterns[p]);
        for (const LinkShare& share : group.shares[p])
          most[share.link] = std::max(most[share.link], share.share * alone);
      }
      for (const auto& [link, share] : most) {
        asked[link] += share;
        ++groups[link];
        if (first < own_ranks_) ++own[link];
      }
    }
  const auto fills = [&](std::uint32_t link) { return asked[link] > capacity_[link] * kRounding || flaps(link); };
  for (std::uint32_t link = 0; link < capacity_.size(); ++link) {
    if (flaps(link) && groups[link] > 0) flaps_met_[flap_of_[link]] = true;
    if (adapters[link] || groups[link] < 2 || !fills(link)) continue;
    meets_ = true;
    jobs_meet_ |= own[link] > 0 && own[link] < groups[link];
  }
  meets_ |= std::find(flaps_met_.begin(), flaps_met_.end(), true) != flaps_met_.end();
  for (auto& of_communicator : groups_)
    for (auto& [first, group] : of_communicator)
      for (std::vector<LinkShare>& shares : group.shares)
        std::erase_if(shares, [&](const LinkShare& share) { return !fills(share.link); });
}

void JobNetwork::share_links() {
  std::map<std::pair<double, std::uint32_t>, std::uint32_t> kinds;
  for (std::uint32_t link = 0; link < capacity_.size(); ++link)
    shared_.links.push_back(
        kinds.try_emplace({capacity_[link], flap_of_[link]}, static_cast<std::uint32_t>(kinds.size())).first->second);
  std::map<std::pair<std::size_t, double>, std::uint32_t> known;
  for (std::uint32_t c = 0; c < groups_.size(); ++c)
    for (const auto& [first, group] : groups_[c]) {
      SharedLinks::Group out{c, first, group.kind, {}};
      for (std::size_t p = 0; p < group.shares.size(); ++p)
        for (const LinkShare& share : group.shares[p])
          out.uses.push_back(
              {share.link,
               known.try_emplace({p, share.share}, static_cast<std::uint32_t>(known.size())).first->second});
      shared_.groups.push_back(std::move(out));
    }
}

std::vector<std::uint32_t> JobNetwork::groups(std::uint32_t communicator) const {
  std::vector<std::uint32_t> out;
  for (const auto& [first, group] : groups_[communicator]) out.push_back(first);
  return out;
}

void JobNetwork::set_flows(const std::vector<Together>& together) {
  for (const Together& one : together) {
    flows_.emplace_back();
    if (one.groups.empty()) continue;
    flows_.back().group = &groups_[one.communicator].at(one.groups[0]);
    flows_.back().first = one.groups[0];
    flows_.back().parts.resize(flows_.back().group->shares.size());
  }
  merge_links(taken_of_links(together));
  change({});
}

std::vector<std::vector<JobNetwork::Taken>> JobNetwork::taken_of_links(const std::vector<Together>& together) const {
  std::vector<std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t>> shares(capacity_.size());
  for (std::uint32_t flow = 0; flow < together.size(); ++flow)
    for (const std::uint32_t first : together[flow].groups) {
      const OneGroup& group = groups_[together[flow].communicator].at(first);
      for (std::uint32_t p = 0; p < group.shares.size(); ++p)
        for (const LinkShare& share : group.shares[p]) shares[share.link][{flow, p}] += FlowRates::units(share.share);
    }
  std::vector<std::vector<Taken>> out(shares.size());
  for (std::size_t link = 0; link < shares.size(); ++link)
    for (const auto& [of, share] : shares[link]) out[link].push_back({of.first, of.second, share});
  return out;
}

/// Links of one kind of which the same flows take the same are full at one rate: one stands for all of them. A symmetry
/// that turns groups into one another does so with their links, so that the first group is on each that any is on.
void JobNetwork::merge_links(const std::vector<std::vector<Taken>>& taken) {
  std::map<std::pair<std::uint32_t, std::vector<Taken>>, std::uint32_t> numbers;
  std::vector<double> capacity;
  for (std::uint32_t link = 0; link < capacity_.size(); ++link) {
    const auto number = static_cast<std::uint32_t>(capacity.size());
    const auto [at, is_new] = numbers.try_emplace({shared_.links[link], taken[link]}, number);
    merged_.push_back(at->second);
    if (!is_new) continue;
    capacity.push_back(capacity_[link]);
    for (const Taken& one : taken[link]) flows_[one.flow].parts[one.pattern].push_back({number, one.share});
  }
  rates_.emplace(capacity);
}

double JobNetwork::rate_alone(const OneGroup& group, NodePattern pattern) const {
  double rate = 1;
  for (const LinkShare& share : group.shares[static_cast<std::size_t>(pattern)])
    rate = std::min(rate, capacity_[share.link] / share.share);
  return rate;
}

Nanoseconds JobNetwork::price(const Curve& curve, double rate) const {
  CollectiveRequest request = curve.request;
  request.network_rate = std::min(1.0, rate / curve.alone);
  return collectives_.price(request).time;
}

JobNetwork::Curve& JobNetwork::curve_of(const OneGroup& group, std::uint32_t first, const CollectiveRequest& request) {
  CollectiveRequest key = request;
  key.first_rank.reset();
  const auto [at, is_new] = curves_.try_emplace({group.kind, key});
  Curve& curve = at->second;
  if (!is_new) return curve;
  curve.request = request;
  curve.request.first_rank = first;
  curve.request.node_ranks = node_ranks_;
  // Which pattern runs may depend on the rate: what the group does alone decides.
  curve.request.network_rate = 1;
  const CollectivePrice alone = collectives_.price(curve.request);
  curve.pattern = alone.pattern;
  curve.flows = alone.network_bytes > 0;
  curve.alone = rate_alone(group, curve.pattern);
  curve.at_most = price(curve, curve.alone);
  double low = 0;
  curve.most = curve.alone;
  const double near = static_cast<double>(curve.at_most.count) * kAsAlone;
  for (int i = 0; i < 20 && curve.flows; ++i) {
    const double middle = (low + curve.most) / 2;
    (static_cast<double>(price(curve, middle).count) <= near ? curve.most : low) = middle;
  }
  return curve;
}

bool JobNetwork::begin(std::uint32_t groups, const CollectiveRequest& request) {
  OneFlow& flow = flows_[groups];
  if (flow.parts.empty()) return false;
  CollectiveRequest own = request;
  own.rank_stride = flow.group->stride;
  Curve& curve = curve_of(*flow.group, flow.first, own);
  if (!curve.flows) return false;
  flow.curve = &curve;
  flow.flow = rates_->begin(flow.parts[static_cast<std::size_t>(curve.pattern)], FlowRates::units(curve.most));
  of_flow_.resize(std::max<std::size_t>(of_flow_.size(), flow.flow->value + 1));
  of_flow_[flow.flow->value] = groups;
  return true;
}

void JobNetwork::settle() {
  rates_->settle();
  changed_.clear();
  for (const FlowRates::FlowId flow : rates_->changed()) changed_.push_back(of_flow_[flow.value]);
}

void JobNetwork::end(std::uint32_t groups) {
  OneFlow& flow = flows_[groups];
  FORESHARD_CHECK(flow.flow.has_value(), "a collective ends once");
  rates_->end(*flow.flow);
  flow.flow.reset();
  flow.curve = nullptr;
}

Nanoseconds JobNetwork::priced(const CollectiveRequest& request) {
  const auto [at, is_new] = priced_.try_emplace(request);
  if (is_new) at->second = collectives_.price(request).time;
  return at->second;
}

Nanoseconds JobNetwork::time(std::uint32_t groups) {
  const OneFlow& flow = flows_[groups];
  FORESHARD_CHECK(flow.flow.has_value(), "a collective that does not run has no rate");
  Curve& curve = *flow.curve;
  const std::int64_t now = rates_->rate(*flow.flow);
  const double rate = static_cast<double>(now) / static_cast<double>(FlowRates::kWholeRate);
  if (now == 0) return kNever;
  if (rate >= curve.most / kRounding) return curve.at_most;
  const auto [at, is_new] = curve.times.try_emplace(now);
  if (is_new) at->second = price(curve, rate);
  return at->second;
}

}  // namespace foreshard::sim
