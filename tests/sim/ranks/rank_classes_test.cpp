// Which ranks are simulated as one.
#include "sim/ranks/rank_classes.hpp"

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

std::vector<std::uint32_t> counts(const RankClasses& classes) {
  std::vector<std::uint32_t> out;
  for (const RankClasses::Class& one : classes.classes) out.push_back(one.count);
  return out;
}

TEST_CASE("ranks that nothing tells apart are one class") {
  const RankClasses classes = rank_classes(std::vector<RankTraits>(64), {{64, 1}});
  CHECK(counts(classes) == std::vector<std::uint32_t>{64});
  REQUIRE(classes.groups.size() == 1);
  CHECK(classes.groups[0].classes == std::vector<std::uint32_t>{0});
}

TEST_CASE("a rank that is unlike the others sets apart those that share a group with it") {
  std::vector<RankTraits> ranks(16);
  ranks[5].kernels = 1.5;
  // One group of all: the others stay alike.
  CHECK(counts(rank_classes(ranks, {{16, 1}})) == std::vector<std::uint32_t>{15, 1});
  // Shard groups of 4, replicate groups across them: rank 5, its shard group, its replicate group, all others.
  const RankClasses mesh = rank_classes(ranks, {{4, 1}, {4, 4}});
  CHECK(counts(mesh) == std::vector<std::uint32_t>{9, 3, 3, 1});
  CHECK(mesh.of_rank[4] == mesh.of_rank[7]);
  CHECK(mesh.of_rank[1] == mesh.of_rank[13]);
  CHECK(mesh.of_rank[0] == mesh.of_rank[15]);
  // Shard groups: {0, 1}, twice; {others of 5, 5}. Replicate groups: {0, others}, {1, 5}.
  CHECK(mesh.groups.size() == 4);
}

TEST_CASE("unfolded, every rank is a class of its own") {
  const RankClasses classes = rank_classes(std::vector<RankTraits>(8), {{4, 1}, {2, 4}}, false);
  CHECK(classes.classes.size() == 8);
  CHECK(classes.groups.size() == 2 + 4);
  CHECK(classes.groups[1].classes == std::vector<std::uint32_t>{4, 5, 6, 7});
  CHECK(classes.groups[2].classes == std::vector<std::uint32_t>{0, 4});
}

}  // namespace
}  // namespace foreshard::sim
