// What each of several differences costs: exactly the steps of plans with it alone, and without it.
#include "sim/predict/difference_costs.hpp"

#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/sim/predict/llama_on_nodes.hpp"

namespace foreshard::sim {
namespace {

Prediction plan_with(const Differences& differences, unsigned threads = 1) {
  test::PlannedLlama job = test::llama_on_nodes("h200", 4, 4, 2);
  job.request.differences = differences;
  job.request.threads = threads;
  auto p = job.plan();
  INFO((p ? "" : p.error().text()));
  REQUIRE(p);
  return std::move(*p);
}

std::vector<std::string> words_of(const Differences& all) {
  std::vector<std::string> out;
  for (const NamedDifferences& one : each_of(all)) out.push_back(one.what);
  return out;
}

}  // namespace

TEST_CASE("differences are told one by one, many of them by their kind") {
  Differences all{{{.rank = 5, .kernels = 1.2, .host = 2}}, {{1, 3, 4}}, {{9, 2}}, {0.1, 0}};
  CHECK(words_of(all) ==
        std::vector<std::string>{"rank 5's GPU", "rank 5's host", "adapter 1.3", "rank 9's NVLink", "other traffic"});
  const std::vector<NamedDifferences> each = each_of(all);
  CHECK(each[0].differences.ranks[0].host == 1);
  CHECK(each[1].differences.ranks[0].kernels == 1);
  all.ranks.push_back({.rank = 6, .kernels = 1.2});
  CHECK(each_of(all).size() == kMaxTold);
  all.ranks.push_back({.rank = 7, .kernels = 1.3});
  CHECK(words_of(all) ==
        std::vector<std::string>{"the slow GPUs", "rank 5's host", "adapter 1.3", "rank 9's NVLink", "other traffic"});
  CHECK(each_of(all)[0].differences.ranks.size() == 3);
  CHECK(each_of({{{.rank = 5, .dead_from = 2}}, {}, {}}).empty());
}

TEST_CASE("what a difference costs is what plans with it alone, and without it, say") {
  const RankDifference gpu{.rank = 5, .kernels = 1.3}, host{.rank = 12, .host = 4};
  const SlowAdapter adapter{1, 3, 8};
  const Prediction all = plan_with({{gpu, host}, {adapter}, {}});
  REQUIRE(all.rank_costs.size() == 3);
  const double alike = plan_with({}).step_ms;
  CHECK(all.step_alike_ms == alike);
  CHECK(all.rank_costs[0].alone_ms == Approx(plan_with({{gpu}, {}, {}}).step_ms - alike).margin(1e-6));
  CHECK(all.rank_costs[1].alone_ms == Approx(plan_with({{host}, {}, {}}).step_ms - alike).margin(1e-6));
  CHECK(all.rank_costs[2].alone_ms == Approx(plan_with({{}, {adapter}, {}}).step_ms - alike).margin(1e-6));
  CHECK(all.rank_costs[0].beside_ms == Approx(all.step_ms - plan_with({{host}, {adapter}, {}}).step_ms).margin(1e-6));
  CHECK(all.rank_costs[1].beside_ms == Approx(all.step_ms - plan_with({{gpu}, {adapter}, {}}).step_ms).margin(1e-6));
  CHECK(all.rank_costs[2].beside_ms == Approx(all.step_ms - plan_with({{gpu, host}, {}, {}}).step_ms).margin(1e-6));
  const Prediction threads = plan_with({{gpu, host}, {adapter}, {}}, 4);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(threads.rank_costs[i].alone_ms == all.rank_costs[i].alone_ms);
    CHECK(threads.rank_costs[i].beside_ms == all.rank_costs[i].beside_ms);
  }
}

TEST_CASE("of two differences the one alone is what is left without the other; one costs all") {
  const RankDifference gpu{.rank = 5, .kernels = 1.3};
  const SlowAdapter adapter{1, 3, 8};
  const Prediction both = plan_with({{gpu}, {adapter}, {}});
  REQUIRE(both.rank_costs.size() == 2);
  const double longer = both.step_ms - both.step_alike_ms;
  CHECK(both.rank_costs[0].alone_ms + both.rank_costs[1].beside_ms == Approx(longer).margin(1e-6));
  CHECK(both.rank_costs[1].alone_ms + both.rank_costs[0].beside_ms == Approx(longer).margin(1e-6));
  const Prediction one = plan_with({{gpu}, {}, {}});
  REQUIRE(one.rank_costs.size() == 1);
  CHECK(one.rank_costs[0].ranks == std::vector<std::uint32_t>{5});
  CHECK(one.rank_costs[0].alone_ms == Approx(one.step_ms - one.step_alike_ms).margin(1e-6));
  CHECK(one.rank_costs[0].beside_ms == one.rank_costs[0].alone_ms);
}

}  // namespace foreshard::sim
