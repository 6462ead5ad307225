// Which global ranks form each group of a mesh.
#include "core/step/rank_mesh.hpp"

#include "core/workload/process_group.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

std::vector<std::uint32_t> members(const Settings& settings, std::uint32_t rank, CommunicatorRole role) {
  const std::vector<UnitPlan> plans(1);
  return RankMesh(settings, plans, rank).members(role, {kRootUnit, 0});
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

TEST_CASE("experts are sharded over every so many ranks of the shard dimension") {
  Settings s;
  s.gpus = 8;
  s.replicate = 2;
  s.expert_parallel = 2;  // (replicate 2, the rest 2, expert parallel 2)
  std::vector<UnitPlan> plans(2);
  plans[1].groups.resize(1);
  plans[1].groups[0].shard_ranks = 2;
  const RankMesh mesh(s, plans, 7);
  const ParamGroupId experts{UnitId{1}, 0};
  CHECK(mesh.members(CommunicatorRole::shard, experts) == std::vector<std::uint32_t>{5, 7});
  CHECK(mesh.place(CommunicatorRole::shard, experts) == 1);
  CHECK(mesh.members(CommunicatorRole::replicate, experts) == std::vector<std::uint32_t>{3, 7});
  CHECK(mesh.members(CommunicatorRole::shard, {kRootUnit, 0}) == std::vector<std::uint32_t>{4, 5, 6, 7});
}

TEST_CASE("a program's own group follows the mesh it is a dimension of") {
  Settings recorded;
  recorded.gpus = 4;
  recorded.tensor_parallel = 2;
  Settings wanted = recorded;
  wanted.gpus = 8;
  const auto on = [&](std::uint32_t ranks, std::uint32_t stride) {
    const ProcessGroup group = on_mesh({"", ranks, stride}, recorded, wanted);
    return std::pair(group.ranks, group.stride);
  };
  CHECK(on(2, 1) == std::pair(2U, 1U));  // tensor parallel
  CHECK(on(2, 2) == std::pair(4U, 2U));  // shard: clip_grad_norm_
  CHECK(on(4, 1) == std::pair(8U, 1U));  // all ranks
  CHECK(on(3, 1) == std::pair(3U, 1U));
  {
    Settings experts;  // expert parallelism keeps its degree, unlike a group of the shard dimension
    experts.gpus = 4;
    experts.expert_parallel = 4;
    Settings more = experts;
    more.gpus = 8;
    CHECK(on_mesh({"mesh_ep", 4, 1}, experts, more).ranks == 4);
  }
  wanted.replicate = 2;  // 2 x 2 x 2
  CHECK(on(2, 2) == std::pair(2U, 2U));
  recorded.gpus = 2;  // tensor parallelism over the whole recorded world
  wanted = recorded;
  wanted.gpus = 4;
  CHECK(on(2, 1) == std::pair(2U, 1U));
}

}  // namespace
}  // namespace foreshard
