// Which ranks a plan says make its step longer: exactly those whose lack of it another plan is that much shorter for.
#include "core/straggler/straggler.hpp"
#include "sim/predict/bound_by.hpp"
#include "tests/catch.hpp"
#include "tests/sim/predict/llama_on_nodes.hpp"

namespace foreshard::sim {
namespace {

Prediction llama_with(std::uint32_t batch, std::uint32_t replicate, const std::vector<RankDifference>& ranks,
                      const std::vector<SlowAdapter>& adapters = {}) {
  test::PlannedLlama job = test::llama_on_nodes("h200", replicate, replicate, batch);
  job.request.differences.ranks = ranks;
  job.request.differences.slow_adapters = adapters;
  auto p = job.plan();
  INFO((p ? "" : p.error().text()));
  REQUIRE(p);
  return std::move(*p);
}

bool is_long(const Prediction& p, double without) {
  return p.step_ms - without > kLateShareOfStep * p.step_ms;
}

}  // namespace

TEST_CASE("a plan names a slow rank exactly where its step is longer for it, and by how much") {
  // With 8 samples a GPU the GPU sets the step, with one the host; in one shard group, and with replicas.
  for (const std::uint32_t batch : {1U, 8U})
    for (const std::uint32_t replicate : {1U, 2U}) {
      const double alike = llama_with(batch, replicate, {}).step_ms;
      for (const std::uint32_t rank : {0U, 5U})
        for (const double factor : rank == 0 ? std::vector{1.2} : std::vector{1.01, 1.05, 1.2, 2.0})
          for (const bool host : {false, true}) {
            CAPTURE(batch, replicate, rank, factor, host);
            RankDifference slow{.rank = rank};
            (host ? slow.host : slow.kernels) = factor;
            const Prediction p = llama_with(batch, replicate, {slow});
            const auto slower = slower_ranks(p);
            REQUIRE(slower.has_value() == is_long(p, alike));
            CHECK((p.bound_by() == BoundBy::ranks) == slower.has_value());
            if (!slower) continue;
            CHECK(slower->ranks == std::vector<std::uint32_t>{rank});
            CHECK(slower->longer_ms == Approx(p.step_ms - alike).margin(1e-6));
            REQUIRE(p.stragglers);
            REQUIRE(p.stragglers->late);
            CHECK(p.stragglers->late->rank == rank);
          }
    }
}

TEST_CASE("of several differences the one is named whose lack makes the step shortest") {
  const RankDifference gpu{.rank = 5, .kernels = 1.3}, host{.rank = 2, .host = 2};
  const Prediction p = llama_with(8, 1, {gpu, host});
  const double without_gpu = llama_with(8, 1, {host}).step_ms;
  REQUIRE(is_long(p, without_gpu));
  const auto slower = slower_ranks(p);
  REQUIRE(slower);
  CHECK(slower->what == "rank 5's GPU");
  CHECK(slower->longer_ms == Approx(p.step_ms - without_gpu).margin(1e-6));
}

TEST_CASE("of slow ranks that hide one another all are named, with what all cost") {
  const double alike = llama_with(8, 1, {}).step_ms;
  const Prediction p = llama_with(8, 1, {{.rank = 3, .kernels = 1.3}, {.rank = 5, .kernels = 1.3}});
  auto slower = slower_ranks(p);
  REQUIRE(slower);
  CHECK(slower->ranks == std::vector<std::uint32_t>{3, 5});
  CHECK(slower->what == "rank 3's GPU and rank 5's GPU");
  CHECK(slower->longer_ms == Approx(p.step_ms - alike).margin(1e-6));
  CHECK_FALSE(p.stragglers->late);
  CHECK(p.stragglers->equally_late.size() == 2);
  const Prediction more =
      llama_with(8, 1, {{.rank = 3, .kernels = 1.3}, {.rank = 5, .kernels = 1.3}, {.rank = 6, .kernels = 1.001}});
  slower = slower_ranks(more);
  REQUIRE(slower);
  CHECK(slower->what == "rank 3's GPU, rank 5's GPU and what else differs");
}

TEST_CASE("more than half of the ranks set the pace, and a link that costs most is no rank") {
  std::vector<RankDifference> five;
  for (std::uint32_t rank = 0; rank < 5; ++rank) five.push_back({.rank = rank, .kernels = 1.3});
  CHECK_FALSE(slower_ranks(llama_with(8, 1, five)));
  five.pop_back();
  CHECK(slower_ranks(llama_with(8, 1, five)));
  const Prediction p = llama_with(8, 2, {{.rank = 5, .kernels = 1.3}}, {{1, 3, 60}});
  REQUIRE(p.rank_costs.size() == 2);
  CHECK(p.rank_costs[1].beside_ms > p.rank_costs[0].beside_ms);
  CHECK_FALSE(slower_ranks(p));
}

}  // namespace foreshard::sim
