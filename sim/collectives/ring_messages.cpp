#include "sim/collectives/ring_messages.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "sim/collectives/group.hpp"
#include "sim/collectives/network_rate.hpp"
#include "sim/collectives/ring.hpp"
#include "sim/network/message_ring.hpp"

namespace foreshard::sim {
namespace {

/// Of all groups side by side.
class Hops {
 public:
  Hops(const MachineProfile& machine, const CollectiveRequest& request)
      : machine_(machine),
        request_(request),
        group_(group_of(request)),
        latency_(ring_hop_latency(machine, group_)),
        per_node_(static_cast<std::uint32_t>(group_.per_node)),
        bytes_(group_.bytes / group_.ranks / (group_.one_node() ? 1 : group_.per_node)),
        inside_(ring_bandwidth_inside(machine, group_)) {
    // Of a GPU's rings all but the one that leaves the node at it go on by NVLink.
    if (!group_.one_node() && per_node_ > 1) inside_ /= per_node_ - 1;
  }

  [[nodiscard]] std::uint32_t rank(std::uint32_t first, std::uint32_t member) const {
    return first + member % request_.ranks * group_.rank_stride;
  }

  /// First ranks of the groups: that of the request, or all that the run's ranks make up; slow NVLinks are of the run.
  [[nodiscard]] std::vector<std::uint32_t> groups() const {
    if (request_.first_rank) return {*request_.first_rank};
    const std::uint64_t stride = group_.rank_stride, block = stride * request_.ranks;
    std::uint64_t world =
        std::max<std::uint64_t>(block, std::uint64_t{request_.all_nodes} * node_ranks(machine_, group_));
    for (const SlowLink& slow : machine_.links.slow_links) world = std::max<std::uint64_t>(world, slow.rank + 1);
    std::vector<std::uint32_t> out;
    for (std::uint64_t begin = 0; begin < world; begin += block)
      for (std::uint64_t first = begin; first < begin + stride; ++first)
        out.push_back(static_cast<std::uint32_t>(first));
    return out;
  }

  /// Rails by which the group's rings leave a node: one a member. On one node none does.
  [[nodiscard]] std::vector<std::uint32_t> rails(std::uint32_t first) const {
    if (group_.one_node()) return {0};
    std::vector<std::uint32_t> out;
    for (std::uint32_t i = 0; i < per_node_; ++i) out.push_back(rank(first, i) % node_ranks(machine_, group_));
    return out;
  }

  /// From each member of the group to the next.
  [[nodiscard]] std::vector<Nanoseconds> times(std::uint32_t first, std::uint32_t rail) {
    const std::vector<RingHopRate> between = group_.one_node() ? std::vector<RingHopRate>{} : rates(first, rail);
    std::vector<Nanoseconds> out;
    for (std::uint32_t i = 0; i < request_.ranks; ++i)
      out.push_back(leaves(i) ? message_between(between[i / per_node_]) : message_inside(first, i));
    return out;
  }

  [[nodiscard]] bool leaves(std::uint32_t member) const {
    return !group_.one_node() && (member % per_node_ == per_node_ - 1 || member + 1 == request_.ranks);
  }

 private:
  /// Where no group begins on its node (groups that do not fill whole nodes) those of the first one.
  const std::vector<RingHopRate>& rates(std::uint32_t first, std::uint32_t rail) {
    const auto [known, added] = known_.try_emplace(rail);
    if (added) known->second = ring_hop_rates(machine_, group_, rail);
    const auto found = known->second.find(first / node_ranks(machine_, group_));
    return (found != known->second.end() ? found : known->second.begin())->second;
  }

  [[nodiscard]] Nanoseconds message_between(const RingHopRate& hop) const {
    return message_time(time_of_us(latency_.between + hop.levels * machine_.network.level_latency), bytes_,
                        rail_bandwidth(machine_) * hop.rate);
  }

  /// The slower of the two GPUs' NVLinks counts.
  [[nodiscard]] Nanoseconds message_inside(std::uint32_t first, std::uint32_t member) const {
    double slowdown = 1;
    for (const SlowLink& slow : machine_.links.slow_links)
      if (slow.rank == rank(first, member) || slow.rank == rank(first, member + 1))
        slowdown = std::max(slowdown, slow.slowdown);
    return message_time(time_of_us(latency_.inside), bytes_, inside_ / slowdown);
  }

  const MachineProfile& machine_;
  const CollectiveRequest& request_;
  Group group_;
  RingHopLatency latency_;
  std::uint32_t per_node_;
  double bytes_;
  double inside_;
  std::map<std::uint32_t, std::map<std::uint32_t, std::vector<RingHopRate>>> known_ = {};  // by rail and first node
};

/// How often the buffer goes around.
std::uint32_t ring_rounds(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce ? 2 : 1;
}

}  // namespace

bool is_ring(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::all_reduce;
}

std::uint32_t most_ring_ranks(CollectiveKind kind) {
  const std::uint32_t rounds = ring_rounds(kind);
  return (MessageRing::kMax + rounds) / (rounds + 1);  // n + rounds (n - 1) <= kMax
}

std::optional<RingMessages> ring_messages(const MachineProfile& machine, const CollectiveRequest& request) {
  if (!is_ring(request.kind) || request.ranks < 2 || request.ranks > most_ring_ranks(request.kind)) return std::nullopt;
  const std::uint64_t steps = ring_rounds(request.kind) * (std::uint64_t{request.ranks} - 1);
  Hops hops(machine, request);
  RingMessages out;
  std::vector<Nanoseconds> known;  // of the ring before: healthy ones are alike
  for (const std::uint32_t first_rank : hops.groups()) {
    const std::vector<std::uint32_t> rails = hops.rails(first_rank);
    out.count = steps * request.ranks * rails.size();
    for (const std::uint32_t rail : rails) {
      std::vector<Nanoseconds> times = hops.times(first_rank, rail);
      if (times == known) continue;
      known = times;
      const auto [fastest, slowest] =
          std::pair(std::min_element(times.begin(), times.end()), std::max_element(times.begin(), times.end()));
      const auto member = static_cast<std::uint32_t>(slowest - times.begin());
      const Nanoseconds hop_time = *slowest;
      const bool apart = *fastest < *slowest;
      std::vector<Nanoseconds> ranks(times.size());
      MessageRing(std::move(times)).run(static_cast<std::uint32_t>(steps), ranks);
      const auto [first, last] = std::minmax_element(ranks.begin(), ranks.end());
      if (*last <= out.time) continue;
      out.time = *last;
      out.first = *first;
      out.from = apart ? std::optional(hops.rank(first_rank, member)) : std::nullopt;
      out.to = hops.rank(first_rank, member + 1);
      out.rail = rail;
      out.hop_time = hop_time;
      out.between_nodes = hops.leaves(member);
    }
  }
  return out;
}

}  // namespace foreshard::sim
