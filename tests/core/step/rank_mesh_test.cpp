// Which global ranks form each group of a mesh.
#include "core/step/rank_mesh.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

std::vector<std::uint32_t> members(const Settings& settings, std::uint32_t rank, CommunicatorRole role) {
  const std::vector<UnitPlan> plans(1);
  return RankMesh(settings, plans, rank).members(role, kRootUnit);
}

TEST_CASE("the last dimension of a mesh is the innermost") {
  Settings s;
  s.gpus = 8;
  CHECK(members(s, 5, CommunicatorRole::shard) == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  s.replicate = 2;
  CHECK(members(s, 5, CommunicatorRole::shard) == std::vector<std::uint32_t>{4, 5, 6, 7});
  CHECK(members(s, 5, CommunicatorRole::replicate) == std::vector<std::uint32_t>{1, 5});
  s.tensor_parallel = 2;  // (replicate 2, shard 2, tensor parallel 2)
  CHECK(members(s, 5, CommunicatorRole::shard) == std::vector<std::uint32_t>{5, 7});
  CHECK(members(s, 5, CommunicatorRole::replicate) == std::vector<std::uint32_t>{1, 5});
  s.replicate = 1;
  CHECK(members(s, 4, CommunicatorRole::shard) == std::vector<std::uint32_t>{0, 2, 4, 6});
  const std::vector<UnitPlan> plans(1);
  CHECK(RankMesh(s, plans, 4).shard().rank == 2);
}

}  // namespace
}  // namespace foreshard
