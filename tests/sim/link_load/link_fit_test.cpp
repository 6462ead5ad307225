// Which link is slow, of plans that were told it.
#include "sim/link_load/link_fit.hpp"

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

struct Fitted {
  RanksFit ranks;
  LinkFit links;
};

Fitted fitted(std::uint32_t gpus, std::uint32_t nodes, std::uint32_t replicate, const Differences& differences) {
  const MachineProfile machine = builtin_profile("h200").value();
  Settings settings;
  settings.gpus = gpus;
  settings.nodes = nodes;
  settings.replicate = replicate;
  settings.batch = 2;
  settings.seq = 1024;
  settings.param_dtype = DType::bfloat16;
  const Workload workload = generate(*preset("llama-tiny"), settings, machine.host_calls, machine.gpu(), true).value();
  PredictRequest request;
  request.settings = workload.settings;
  request.differences = differences;
  request.kept_ranks = kAllRanks;
  const auto planned = predict(workload, machine, request);
  INFO((planned ? "" : planned.error().text()));
  REQUIRE(planned);
  auto ranks = fit_ranks(planned->run);
  REQUIRE(ranks);
  LinkFit links = fit_links(planned->run, *ranks, machine);
  return {std::move(*ranks), std::move(links)};
}

Differences slow_gpu(std::uint32_t rank, double kernels) {
  return {{{.rank = rank, .kernels = kernels}}, {}, {}, {}};
}

}  // namespace

TEST_CASE("the NVLink that slow groups share is named with its factor") {
  const Fitted fit = fitted(4, 1, 2, {{}, {}, {{2, 1.5}}, {}});
  CHECK(fit.ranks.groups.size() >= 2);  // (0, 2) of the replicate dimension, (2, 3) of the shards
  REQUIRE(fit.links.suspects.size() == 1);
  CHECK_FALSE(fit.links.suspects[0].adapter);
  CHECK(fit.links.suspects[0].slow_link.rank == 2);
  CHECK(fit.links.suspects[0].slow_link.slowdown == Approx(1.5).epsilon(0.01));
}

TEST_CASE("a slow GPU makes no link slow") {
  for (const double kernels : {1.01, 1.2, 2.0}) {
    INFO(kernels);
    const Fitted fit = fitted(4, 1, 2, slow_gpu(2, kernels));
    CHECK(fit.ranks.groups.empty());
    CHECK(fit.links.suspects.empty());
    CHECK_FALSE(fit.links.against.differs());
  }
}

TEST_CASE("adapters that no group tells apart are all told") {
  const Fitted fit = fitted(4, 2, 2, {{}, {{1, 3, 5.8}}, {}, {}});
  REQUIRE(fit.ranks.groups.size() == 1);
  CHECK(fit.ranks.groups[0].ranks == std::vector<std::uint32_t>{3, 7});
  REQUIRE(fit.links.suspects.size() == 2);
  for (std::uint32_t node = 0; node < 2; ++node) {
    CHECK(fit.links.suspects[node].adapter);
    CHECK(fit.links.suspects[node].slow_adapter.node == node);
    // The least: up to 2 % of a collective that counts as alone may have run beside something.
    CHECK(fit.links.suspects[node].slow_adapter.slowdown > 0.97 * 5.8);
    CHECK(fit.links.suspects[node].slow_adapter.slowdown < 1.01 * 5.8);
  }
}

TEST_CASE("the collectives of one group are held against their price") {
  const Fitted healthy = fitted(4, 1, 1, slow_gpu(1, 1.05));
  CHECK(healthy.links.against.time.least.samples > 0);
  CHECK_FALSE(healthy.links.against.differs());
  const Fitted slow = fitted(4, 1, 1, {{}, {}, {{2, 3}}, {}});
  CHECK(slow.ranks.groups.empty());
  CHECK(slow.links.against.differs());
  CHECK(slow.links.against.time.sure().value > 2);
}

}  // namespace foreshard::sim
