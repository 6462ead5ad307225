#include "sim/sweep/pareto.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using Indices = std::vector<std::size_t>;

TEST_CASE("the Pareto front: what nothing beats, the fastest first") {
  const std::vector<PointCost> points{{0, 10, 100}, {1, 8, 120}, {2, 9, 130}, {3, 12, 90}, {4, 8, 120}, {5, 12, 95}};
  CHECK(pareto(points) == Indices{1, 0, 3});
  CHECK(pareto({}).empty());
}

TEST_CASE("of equally fast points the smallest is the first of the front") {
  const std::vector<PointCost> points{{0, 10, 100}, {1, 8, 120}, {2, 8, 110}, {3, 12, 90}};
  CHECK(pareto(points) == Indices{2, 0, 3});
}

TEST_CASE("steps of different batches are compared by their work") {
  const std::vector<PointCost> points{{0, 10, 100, 0.03, 1}, {1, 16, 150, 0.03, 2}};
  CHECK(pareto(points) == Indices{1, 0});
}

TEST_CASE("what cannot be told from the best is named, by time") {
  const std::vector<PointCost> points{
      {0, 100, 1, 0.03}, {1, 102, 1, 0.03}, {2, 104, 1, 0.03}, {3, 109, 1, 0.10}, {4, 101, 9, 0.03}};
  CHECK(ties(points, 0) == Indices{4, 1, 3});
  CHECK(ties(points, 77).empty());
  CHECK(smallest(points, 4, Indices{0, 1, 3}) == 0);  // less memory; of equally small ones the fastest
  CHECK(smallest(points, 4, {}) == 4);
}
