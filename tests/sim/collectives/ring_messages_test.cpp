// Every message of NCCL's ring beside the steady pipeline's price, and what holds a collective.
#include "sim/collectives/ring_messages.hpp"

#include <array>
#include <cmath>

#include "sim/collectives/bound.hpp"
#include "sim/collectives/network_rate.hpp"
#include "sim/collectives/ring.hpp"
#include "tests/sim/collectives/machine.hpp"

namespace foreshard::sim {
namespace {

CollectiveRequest gather(Bytes bytes, std::uint32_t ranks) {
  return {CollectiveKind::all_gather, Transport::nccl, bytes, ranks, 8};
}

MachineProfile with_adapter(double slowdown) {
  MachineProfile machine = bare_h200();
  if (slowdown > 1) machine.network.slow_adapters = {{1, 3, slowdown}};
  return machine;
}

/// Messages over the steady pipeline, of the same protocol.
double apart(const MachineProfile& machine, const CollectiveRequest& request) {
  return ring_messages(machine, request)->time.us() / ring(machine, group_of(request), Protocol::simple, false).us - 1;
}

Bound bound(const MachineProfile& machine, const CollectiveRequest& request) {
  return holding(machine, request).now;
}

}  // namespace

TEST_CASE("the slow adapter's hop is found, and the whole ring waits for it") {
  const MachineProfile machine = with_adapter(5.8);
  const CollectiveRequest request = gather(kGiB, 32);
  const RingMessages messages = *ring_messages(machine, request);
  CHECK(messages.between_nodes);
  CHECK(messages.rail == 3);
  CHECK(messages.from == 7);  // from node 0 into node 1; out of it is as slow
  CHECK(messages.count == 8ULL * 31 * 32);
  // All begin together: each of the 31 steps waits for the slowest hop.
  CHECK(messages.time.count == 31 * messages.hop_time.count);
  CHECK(messages.first < messages.time);
}

TEST_CASE("of groups side by side the one with the slow adapter or NVLink is meant") {
  // HSDP: replicas on one rail each.
  CollectiveRequest replicas{CollectiveKind::all_reduce, Transport::nccl, kGiB, 4, 1};
  replicas.node_ranks = 8;
  replicas.all_nodes = 4;
  replicas.rank_stride = 8;
  const RingMessages messages = *ring_messages(with_adapter(5.8), replicas);
  CHECK(messages.rail == 3);
  CHECK(messages.from == 3);
  CHECK(messages.to == 11);
  CHECK(messages.count == 6 * 4);
  CHECK(messages.time.us() > 5 * ring_messages(bare_h200(), replicas)->time.us());
  MachineProfile machine = bare_h200();
  machine.links.slow_links = {{13, 3}};  // of the second group of 8
  CHECK(ring_messages(machine, gather(kGiB, 8))->from == 12);
}

TEST_CASE("no ring has another group's slow NVLink") {
  MachineProfile machine = bare_h200();
  machine.links.slow_links = {{5, 3}};
  const Nanoseconds one = ring_messages(machine, gather(kGiB, 8))->time;
  const Nanoseconds first = ring_messages(machine, gather(kGiB, 8))->first;
  machine.links.slow_links = {{1, 2}, {13, 3}};
  const RingMessages two = *ring_messages(machine, gather(kGiB, 8));
  CHECK(two.time == one);
  CHECK(two.first == first);
  CHECK(two.from == 12);
  // Replicas on one node: {0, 2, 4, 6} and {1, 3, 5, 7}.
  CollectiveRequest replicas{CollectiveKind::all_reduce, Transport::nccl, kGiB, 4, 4};
  replicas.node_ranks = 8;
  replicas.all_nodes = 1;
  replicas.rank_stride = 2;
  machine.links.slow_links = {{5, 3}};
  CHECK(ring_messages(machine, replicas)->from == 3);
  CHECK(ring_messages(machine, replicas)->to == 5);
  replicas.first_rank = 0;
  CHECK_FALSE(ring_messages(machine, replicas)->from);  // a healthy one: no hop is slower than another
}

TEST_CASE("a slow NVLink's hop is found") {
  MachineProfile machine = bare_h200();
  machine.links.slow_links = {{5, 3}};
  const RingMessages messages = *ring_messages(machine, gather(kGiB, 8));
  CHECK_FALSE(messages.between_nodes);
  CHECK(messages.from == 4);  // into rank 5
}

TEST_CASE("the steady pipeline is the messages' where bytes decide, and not where steps do") {
  struct Row {
    std::uint32_t ranks;
    double slowdown;
    std::array<double, 4> percent;  // of 1 MiB, 64 MiB, 1 GiB, 8 GiB
  };
  constexpr std::array kSizes{kMiB, 64 * kMiB, kGiB, 8 * kGiB};
  // The table of docs/collectives.md, "Every message".
  for (const Row& row :
       {Row{16, 1, {141, 75, 7.2, 1.0}}, Row{32, 1, {139, 106, 13.8, 1.9}}, Row{32, 2, {140, 75, 7.2, 1.0}},
        Row{32, 5.8, {141, 34, 2.6, 0.3}}, Row{512, 5.8, {138, 132, 34, 5.0}}})
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      const double percent = 100 * apart(with_adapter(row.slowdown), gather(kSizes[i], row.ranks));
      INFO(row.ranks << " ranks, slowdown " << row.slowdown << ", " << kSizes[i] << " B: " << percent);
      CHECK(std::abs(percent - row.percent[i]) < (row.percent[i] > 20 ? 0.6 : 0.06));
    }
}

TEST_CASE("a step's rate is what its fullest link leaves it") {
  MachineProfile machine = bare_h200();
  machine.network.leaf_nodes = 4;
  machine.network.oversubscription = 4;
  Group group;
  group.ranks = group.nodes = 8;
  group.per_node = 1;
  group.all_nodes = 8;
  // One group over both leaves: each is left once, by one node's worth.
  auto by_group = ring_hop_rates(machine, group, 0);
  for (const RingHopRate& hop : by_group.at(0)) CHECK(hop.rate == 1);
  CHECK(by_group.at(0)[3].levels == 1);
  CHECK(by_group.at(0)[0].levels == 0);
  // Pairs of nodes from leaf to leaf: all four of a leaf at once.
  group.ranks = group.nodes = 2;
  group.node_stride = 4;
  by_group = ring_hop_rates(machine, group, 0);
  CHECK(by_group.size() == 4);
  for (const auto& [node, rates] : by_group)
    for (const RingHopRate& hop : rates) CHECK(hop.rate == 0.25);
  CHECK(network_rate(machine, group, NodePattern::ring).rate == 0.25);
}

TEST_CASE("what is no ring of all ranks has no messages") {
  for (const CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::all_to_all, CollectiveKind::send_recv})
    CHECK_FALSE(ring_messages(bare_h200(), {kind, Transport::nccl, kGiB, 8, 8}));
  CHECK_FALSE(ring_messages(bare_h200(), gather(kGiB, 1)));
  CHECK_FALSE(ring_messages(bare_h200(), gather(kGiB, 1U << 20)));
  CHECK(most_ring_ranks(CollectiveKind::all_gather) == 1U << 18);  // and 2^18 - 1 steps
  CHECK(most_ring_ranks(CollectiveKind::all_reduce) == 174'763);   // and 349,524 steps: 2^19 - 1
}

TEST_CASE("what holds a collective is what makes it faster") {
  CHECK(bound(bare_h200(), gather(kGiB, 8)) == Bound::nvlink);
  CHECK(bound(bare_h200(), gather(kMiB, 64)) == Bound::latency);
  CHECK(bound(bare_h200(), gather(kGiB, 64)) == Bound::adapters);
  CHECK(bound(with_adapter(2), gather(kGiB, 64)) == Bound::slow_adapter);
  MachineProfile machine = bare_h200();
  machine.links.slow_links = {{5, 3}};
  CHECK(bound(machine, gather(kGiB, 8)) == Bound::slow_link);
  machine = bare_h200();
  machine.network.leaf_nodes = 4;
  machine.network.oversubscription = 16;
  CHECK(bound(machine, gather(kGiB, 64)) == Bound::fabric);
}

TEST_CASE("twice what holds it may only meet the next limit, and that is said") {
  // 16 GPUs, 1 GiB: 384 GB/s of adapters are just below what NVLink's rings move.
  const Holding adapters = holding(bare_h200(), gather(kGiB, 16));
  CHECK(adapters.now == Bound::adapters);
  CHECK(adapters.next == Bound::nvlink);
  CHECK(adapters.saves > 0);
  CHECK(adapters.saves < 0.2);
  CHECK(relief_words(adapters).ends_with(" %, then NVLink"));
  const Holding slow = holding(with_adapter(2), gather(kGiB, 64));
  CHECK(slow.next == Bound::adapters);
  CHECK(relief_words(slow).starts_with("a slow adapter; without it saves"));
  // Twice the links of a ring of 2 ranks leave its channels the limit, which are NVLink's still.
  CHECK_FALSE(holding(bare_h200(), gather(kGiB, 2)).next);
}

}  // namespace foreshard::sim
