#include "sim/collectives/ring_messages.hpp"

#include <algorithm>
#include <vector>

#include "sim/collectives/group.hpp"
#include "sim/collectives/network_rate.hpp"
#include "sim/collectives/ring.hpp"
#include "sim/network/message_ring.hpp"

namespace foreshard::sim {
namespace {

class HopsOfRail {
 public:
  HopsOfRail(const MachineProfile& machine, const Group& group, std::uint32_t rail)
      : machine_(machine),
        latency_(ring_hop_latency(machine, group)),
        per_node_(static_cast<std::uint32_t>(group.per_node)),
        bytes_(group.bytes / group.ranks / (group.one_node() ? 1 : group.per_node)),
        inside_(ring_bandwidth_inside(machine, group)) {
    // Of a GPU's rings all but the one that leaves the node at it go on by NVLink.
    if (!group.one_node()) {
      if (per_node_ > 1) inside_ /= per_node_ - 1;
      between_ = ring_hop_rates(machine, group, rail);
    }
  }

  /// From each member to the next.
  [[nodiscard]] std::vector<Nanoseconds> times(const CollectiveRequest& request) const {
    std::vector<Nanoseconds> out;
    for (std::uint32_t i = 0; i < request.ranks; ++i)
      out.push_back(leaves(i, request.ranks) ? between(i / per_node_) : inside(request, i));
    return out;
  }

  [[nodiscard]] bool leaves(std::uint32_t member, std::uint32_t ranks) const {
    return !between_.empty() && (member % per_node_ == per_node_ - 1 || member + 1 == ranks);
  }

 private:
  [[nodiscard]] Nanoseconds between(std::uint32_t node) const {
    const RingHopRate& hop = between_[node];
    return message_time(time_of_us(latency_.between + hop.levels * machine_.network.level_latency), bytes_,
                        rail_bandwidth(machine_) * hop.rate);
  }

  /// The slower of the two GPUs' NVLinks counts.
  [[nodiscard]] Nanoseconds inside(const CollectiveRequest& request, std::uint32_t member) const {
    double slowdown = 1;
    for (const SlowLink& slow : machine_.links.slow_links)
      for (const std::uint32_t one : {member, (member + 1) % request.ranks})
        if (is_member(request, slow.rank, one)) slowdown = std::max(slowdown, slow.slowdown);
    return message_time(time_of_us(latency_.inside), bytes_, inside_ / slowdown);
  }

  /// Of the group at its first rank; none named: of any of the groups side by side, members one after another.
  [[nodiscard]] static bool is_member(const CollectiveRequest& request, std::uint32_t rank, std::uint32_t member) {
    if (!request.first_rank) return rank % request.ranks == member;
    return rank == *request.first_rank + member * std::max(1U, request.rank_stride);
  }

  const MachineProfile& machine_;
  RingHopLatency latency_;
  std::uint32_t per_node_;
  double bytes_;
  double inside_;
  std::vector<RingHopRate> between_ = {};  // by member node; empty on one node
};

bool is_ring(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::all_reduce;
}

}  // namespace

std::optional<RingMessages> ring_messages(const MachineProfile& machine, const CollectiveRequest& request) {
  const std::uint64_t steps = (request.kind == CollectiveKind::all_reduce ? 2 : 1) * (std::uint64_t{request.ranks} - 1);
  if (!is_ring(request.kind) || request.ranks < 2 || request.ranks + steps > MessageRing::kMax) return std::nullopt;
  const Group group = group_of(request);
  // A group of fewer GPUs a node is any of those side by side, on any of the node's rails.
  const auto per_node = static_cast<std::uint32_t>(group.per_node);
  const std::uint32_t rails = group.one_node() ? 1 : std::max(per_node, request.node_ranks);
  RingMessages out;
  out.count = steps * request.ranks * (group.one_node() ? 1 : per_node);
  std::vector<Nanoseconds> known;  // of the rail before: healthy rails are alike
  for (std::uint32_t rail = 0; rail < rails; ++rail) {
    const HopsOfRail hops(machine, group, rail);
    std::vector<Nanoseconds> times = hops.times(request);
    if (times == known) continue;
    known = times;
    const auto slowest = std::max_element(times.begin(), times.end());
    const auto member = static_cast<std::uint32_t>(slowest - times.begin());
    const Nanoseconds hop_time = *slowest;
    std::vector<Nanoseconds> ranks(times.size());
    MessageRing(std::move(times)).run(static_cast<std::uint32_t>(steps), ranks);
    const auto [first, last] = std::minmax_element(ranks.begin(), ranks.end());
    if (*last <= out.time) continue;
    out.time = *last;
    out.first = *first;
    out.hop = member;
    out.rail = rail;
    out.hop_time = hop_time;
    out.between_nodes = hops.leaves(member, request.ranks);
  }
  return out;
}

}  // namespace foreshard::sim
