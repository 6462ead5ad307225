#include "sim/sweep/pareto.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using Indices = std::vector<std::size_t>;

TEST_CASE("the Pareto front: what nothing beats, the fastest first") {
  const std::vector<PointCost> points{{0, 10, 100}, {1, 8, 120}, {2, 9, 130}, {3, 12, 90}, {4, 8, 120}, {5, 12, 95}};
  CHECK(pareto(points) == Indices{1, 0, 3});
  CHECK(pareto({}).empty());
}

TEST_CASE("the fastest under a limit; ties by memory, then by order") {
  const std::vector<PointCost> points{{0, 10, 100}, {1, 8, 120}, {2, 8, 110}, {3, 12, 90}};
  CHECK(fastest(points, std::nullopt) == 2U);
  CHECK(fastest(points, 100U) == 0U);
  CHECK(fastest(points, 95U) == 3U);
  CHECK_FALSE(fastest(points, 10U));
}

TEST_CASE("steps of different batches are compared by their work") {
  const std::vector<PointCost> points{{0, 10, 100, 0.03, 1}, {1, 16, 150, 0.03, 2}};
  CHECK(fastest(points, std::nullopt) == 1U);
  CHECK(pareto(points) == Indices{1, 0});
}

TEST_CASE("what cannot be told from the best is named, by time") {
  const std::vector<PointCost> points{
      {0, 100, 1, 0.03}, {1, 102, 1, 0.03}, {2, 104, 1, 0.03}, {3, 109, 1, 0.10}, {4, 101, 9, 0.03}};
  CHECK(ties(points, 0, std::nullopt) == Indices{4, 1, 3});
  CHECK(ties(points, 0, 5U) == Indices{1, 3});
  CHECK(ties(points, 77, std::nullopt).empty());
  CHECK(smallest(points, 4, Indices{0, 1, 3}) == 0);  // less memory; of equally small ones the fastest
  CHECK(smallest(points, 4, {}) == 4);
}

TEST_CASE("a point that surely stays within the limit comes before a faster one that may not") {
  const std::vector<PointCost> points{{0, 10, 100, 0.3, 1, 140}, {1, 12, 100, 0.3, 1, 110}, {2, 13, 105, 0.3, 1, 0}};
  CHECK(fastest(points, std::nullopt) == 0U);
  CHECK(fastest(points, 150) == 0U);
  CHECK(fastest(points, 120) == 1U);
  CHECK(ties(points, 1, 120) == std::vector<std::size_t>{2});
  CHECK(fastest(points, 102) == 0U);  // none surely does
  CHECK(ties(points, 0, 102) == std::vector<std::size_t>{1});
}
