// Speed of links that groups share as they come and go: collectives of 16,384 ranks, where half of the adapters run at
// half rate, begun and ended one after another.
#include <benchmark/benchmark.h>

#include "sim/network/fabric.hpp"
#include "sim/network/flow_rates.hpp"
#include "sim/network/max_min.hpp"

namespace foreshard::sim {
namespace {

constexpr std::uint32_t kGpus = 8;
constexpr std::uint32_t kNodes = 2048;

struct Coflows {
  std::vector<double> capacity;
  std::vector<std::vector<LinkShare>> shares;  // a rail's: shard groups of 8 nodes, replicas across them
};

/// Of one rail in leaves of 32 nodes with a quarter of the bandwidth out of them. The other seven are alike.
Coflows of_one_rail(bool replicas) {
  Network network;
  network.nics = kGpus;
  network.leaf_nodes = 32;
  network.oversubscription = 4;
  for (std::uint32_t node = 0; node < kNodes; node += 2) network.slow_adapters.push_back({node, 0, 2});
  const Fabric fabric(network, kGpus, kNodes);
  Coflows out;
  for (const Link& link : fabric.links()) out.capacity.push_back(link.capacity);
  constexpr std::uint32_t kShard = 8;
  for (std::uint32_t first = 0; first < kNodes; first += kShard)
    out.shares.push_back(traffic(fabric, {first, 1, kShard}, NodePattern::ring).shares);
  for (std::uint32_t first = 0; replicas && first < kShard; ++first)
    out.shares.push_back(traffic(fabric, {first, kShard, kNodes / kShard}, NodePattern::ring).shares);
  return out;
}

/// Every group ends and begins again once. With replicas all hang together; without, groups in one leaf do not.
void come_and_go(benchmark::State& state, bool replicas) {
  const Coflows coflows = of_one_rail(replicas);
  FlowRates rates(coflows.capacity);
  std::vector<FlowRates::FlowId> flows;
  for (const auto& shares : coflows.shares) flows.push_back(rates.add(shares, 1));
  std::int64_t steps = 0, looked_at = 0;
  for (auto _ : state)
    for (std::size_t i = 0; i < coflows.shares.size(); ++i) {
      rates.remove(flows[i]);
      looked_at += static_cast<std::int64_t>(rates.looked_at());
      flows[i] = rates.add(coflows.shares[i], 1);
      looked_at += static_cast<std::int64_t>(rates.looked_at());
      steps += 2;
    }
  state.SetItemsProcessed(steps);
  state.counters["flows_a_step"] = static_cast<double>(looked_at) / static_cast<double>(steps);
}
BENCHMARK_CAPTURE(come_and_go, shards, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(come_and_go, shards_and_replicas, true)->Unit(benchmark::kMillisecond);

/// What each of those steps would take if all were solved anew.
void full_solution(benchmark::State& state) {
  const Coflows coflows = of_one_rail(true);
  std::vector<Flow> flows;
  for (const auto& shares : coflows.shares) flows.push_back({shares, 1});
  for (auto _ : state) benchmark::DoNotOptimize(max_min_rates(coflows.capacity, flows));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(full_solution)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foreshard::sim
