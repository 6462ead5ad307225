// Measured steps of a recording whose lengths differ, by length.
#include "sim/predict/measured_by_step.hpp"

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

/// Recorded twice round, with what was measured later.
Workload lengths(const std::vector<std::uint32_t>& cycle, const std::vector<double>& measured) {
  Workload out;
  for (int round = 0; round < 2; ++round)
    for (const std::uint32_t seq : cycle) out.recorded.push_back({4, seq, true});
  out.cycle = static_cast<std::uint32_t>(cycle.size());
  out.measured = Measured{measured, {}, out.cycle};
  return out;
}

}  // namespace

TEST_CASE("each length has the mean of its measured steps, and over a cycle that is the run's step time") {
  // vary_l1b of the reference runs.
  const Workload vary = lengths({2048, 1536, 1024, 1536}, {175.406, 139.184, 105.077, 137.726, 173.476, 138.777,
                                                           106.603, 141.387, 178.731, 138.78, 104.95, 137.729});
  const std::vector<double> found = measured_by_step(vary);
  REQUIRE(found.size() == 8);
  CHECK(found[0] == Approx((173.476 + 178.731) / 2));
  CHECK(found[2] == Approx((106.603 + 104.95) / 2));
  CHECK(found[1] == found[3]);
  CHECK((found[0] + found[1] + found[2] + found[3]) / 4 == Approx(vary.measured->steady_ms()));
}

TEST_CASE("measured steps may begin anywhere in the cycle") {
  const std::vector<double> found =
      measured_by_step(lengths({30, 20, 10}, {9, 9, 1, 3, 2, 1.1, 3.1, 2.1}));  // behind two warm-up steps
  REQUIRE(found.size() == 6);
  CHECK(found[0] == Approx(3.05));
  CHECK(found[2] == Approx(1.05));
}

TEST_CASE("measured steps that no place in the cycle or several fit are of no known length") {
  CHECK(measured_by_step(lengths({30, 20, 10}, {9, 9, 3, 3, 2, 1, 3, 2})).empty());
  CHECK(
      measured_by_step(lengths({30, 20, 10}, {9, 9, 3, 2, 1, 1.5, 2, 1})).empty());  // a long one shorter than a short
  CHECK(measured_by_step(lengths({30, 20, 10}, {9, 9, 3, 2})).empty());              // no whole cycle
  Workload unknown = lengths({30, 10}, {9, 9, 3, 1});
  CHECK(measured_by_step(unknown).size() == 4);
  unknown.recorded[1].seq = 0;
  CHECK(measured_by_step(unknown).empty());
  Workload once = lengths({30, 10}, {9, 9, 3, 1});
  once.recorded = {{4, 30, true}, {4, 20, true}, {4, 10, true}};
  CHECK(measured_by_step(once).empty());  // sizes do not repeat
}

}  // namespace foreshard::sim
