// Slow adapters and NVLinks in a job: which ranks are held up, and that healthy ones change nothing.
#include <algorithm>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/engine/demand.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/sim/predict/llama_on_nodes.hpp"

namespace foreshard::sim {
namespace {

Prediction plan_with_links(std::uint32_t replicate, const Differences& differences, std::uint32_t nodes = 4) {
  test::PlannedLlama job = test::llama_on_nodes("h200", nodes, replicate, 2);
  job.request.differences = differences;
  auto p = job.plan();
  INFO((p ? "" : p.error().text()));
  REQUIRE(p);
  return std::move(*p);
}

std::uint32_t ranks_on_slow_adapters(const Prediction& p) {
  std::uint32_t ranks = 0;
  for (const RankGroup& group : p.ranks)
    if (group.network_slowdown > 1) ranks += group.count;
  return ranks;
}

std::uint32_t ranks_on_slow_links(const Prediction& p) {
  std::uint32_t ranks = 0;
  for (const RankGroup& group : p.ranks)
    if (group.link_slowdown > 1) ranks += group.count;
  return ranks;
}

}  // namespace

TEST_CASE("links that are no slower than the machine's change nothing") {
  for (const std::uint32_t replicate : {1, 4}) {
    const double alike = plan_with_links(replicate, {}).step_ms;
    const Prediction p = plan_with_links(replicate, {{}, {{1, 3, 1}}, {{5, 1}}});
    CHECK(p.step_ms == alike);
    CHECK(p.step_alike_ms == alike);
    REQUIRE(p.ranks.size() == 1);
    CHECK(p.ranks[0].count == 32);
  }
}

TEST_CASE("a slow adapter holds up the replicate group of its GPUs, and every rank of full shards") {
  const Differences slow{{}, {{1, 3, 8}}, {}};
  const Prediction replicas = plan_with_links(4, slow);
  CHECK(ranks_on_slow_adapters(replicas) == 4);  // GPU 3 of each node
  CHECK(replicas.step_ms > replicas.step_alike_ms);
  const Prediction shards = plan_with_links(1, slow);
  CHECK(ranks_on_slow_adapters(shards) == 32);
  CHECK(shards.step_ms > replicas.step_ms);
  CHECK(plan_with_links(1, {{}, {{1, 3, 16}}, {}}).step_ms > shards.step_ms);
}

TEST_CASE("a healthy group beside a slow one asks no more of the fabric than without it") {
  MachineProfile machine = builtin_profile("h200").value();
  CollectiveRequest request{CollectiveKind::all_gather, Transport::nccl, 256 * kMiB, 16, 8};
  request.all_nodes = 4;
  request.node_ranks = 8;
  request.first_rank = 0;
  const auto demand = [&] { return collective_demand(machine, request, ModelledCollectives(machine).price(request)); };
  const CollectiveDemand before = demand();
  machine.network.slow_adapters = {{2, 3, 5.8}};  // of the other group's nodes
  CHECK(demand() == before);
  request.first_rank = 16;
  CHECK(demand().network < before.network);
  CHECK(demand().network * demand().busiest <= 1 + 1e-12);
}

TEST_CASE("a slow NVLink holds up the groups that go over it") {
  const Prediction replicas = plan_with_links(4, {{}, {}, {{5, 4}}});
  CHECK(ranks_on_slow_links(replicas) == 8);  // of node 0
  CHECK(replicas.step_ms > replicas.step_alike_ms);
  REQUIRE(replicas.stragglers);
}

TEST_CASE("other traffic on a share of every adapter is as if all were so much slower") {
  for (const std::uint32_t replicate : {1U, 4U}) {
    Differences slow;
    for (std::uint32_t node = 0; node < 4; ++node)
      for (std::uint32_t adapter = 0; adapter < 8; ++adapter) slow.slow_adapters.push_back({node, adapter, 8});
    const Prediction eighth = plan_with_links(replicate, slow);
    const Prediction loaded = plan_with_links(replicate, {{}, {}, {}, {0.875, 0}});
    CHECK(loaded.step_ms == eighth.step_ms);
    CHECK(loaded.step_ms > loaded.step_alike_ms);
    CHECK(loaded.step_alike_ms == plan_with_links(replicate, {}).step_ms);
    REQUIRE(loaded.ranks.size() == 1);
    CHECK(loaded.ranks[0].network_slowdown == 1);
    CHECK(loaded.ranks[0].background_slowdown == 8);
    CHECK(eighth.ranks[0].background_slowdown == 1);
  }
  // Of an adapter of half the bytes other traffic takes as many as of the others.
  Differences slow;
  for (std::uint32_t node = 0; node < 4; ++node)
    for (std::uint32_t adapter = 0; adapter < 8; ++adapter)
      slow.slow_adapters.push_back({node, adapter, node == 1 && adapter == 3 ? 4.0 : 2.0});
  CHECK(plan_with_links(1, {{}, {{1, 3, 4.0 / 3}}, {}, {0.5, 0}}).step_ms == plan_with_links(1, slow).step_ms);
}

TEST_CASE("what is not in the job is refused") {
  const MachineProfile machine = builtin_profile("h200").value();
  Settings settings;
  settings.gpus = 8;
  settings.nodes = 2;
  settings.batch = 1;
  settings.seq = 512;
  const Workload workload = generate(*preset("llama-tiny"), settings, machine.host_calls, machine.gpu(), true).value();
  const auto refusal = [&](const Settings& of, const Differences& wrong) {
    PredictRequest request;
    request.settings = of;
    request.differences = wrong;
    const auto p = predict(workload, machine, request);
    REQUIRE_FALSE(p);
    CHECK(p.error().kind == ErrorKind::usage);
    return p.error().what;
  };
  for (const Differences& wrong : {Differences{{}, {{2, 0, 2}}, {}}, Differences{{}, {{0, 8, 2}}, {}},
                                   Differences{{}, {}, {{16, 2}}}, Differences{{{.rank = 16}}, {}, {}}})
    CHECK(refusal(workload.settings, wrong).find("there is no") != std::string::npos);
  Settings one_node = workload.settings;
  one_node.nodes = 1;
  CHECK(refusal(one_node, {{}, {{0, 0, 2}}, {}}).find("on one node") != std::string::npos);
  Settings one_gpu = workload.settings;
  one_gpu.gpus = 1;
  CHECK(refusal(one_gpu, {{}, {{0, 1, 2}}, {}}).find("no GPU of the job") != std::string::npos);
}

}  // namespace foreshard::sim
