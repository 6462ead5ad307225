// Sharding: torch.chunk's rows, padded to equal shards, and equal chunks of other dimensions (fsdp2
// semantics 1.2, 1.3).
#include "core/shard/layout.hpp"

#include <algorithm>

#include "tests/catch.hpp"

namespace foreshard {
namespace {

std::vector<std::uint64_t> rows_of(std::int64_t d0, std::uint32_t ranks) {
  const Parameter p{"p", {d0}, DType::float32};
  std::vector<std::uint64_t> rows;
  for (std::uint32_t r = 0; r < ranks; ++r) rows.push_back(local_shard_numel(p, {ranks, r}));
  return rows;
}

TEST_CASE("rows are torch.chunk's") {
  using Rows = std::vector<std::uint64_t>;
  CHECK(rows_of(8, 4) == Rows{2, 2, 2, 2});
  CHECK(rows_of(5, 4) == Rows{2, 2, 1, 0});  // fsdp2 semantics 1.2's own example
  CHECK(rows_of(3, 4) == Rows{1, 1, 1, 0});
  CHECK(rows_of(1, 4) == Rows{1, 0, 0, 0});
  CHECK(rows_of(9, 8) == Rows{2, 2, 2, 2, 1, 0, 0, 0});
  CHECK(rows_of(7, 1) == Rows{7});
}

TEST_CASE("experts of one expert-parallel rank are sharded over the ranks that hold the same") {
  Parameter p{"experts", {5, 3}, DType::float32};
  p.expert_parallel = true;
  const auto local = [&](std::uint32_t rank) { return local_shard_numel(p, {8, rank, 4}); };
  CHECK(padded_shard_numel(p, {8, 0, 4}) == 3 * 3);
  CHECK(local(0) == 3 * 3);
  CHECK(local(3) == 3 * 3);  // (0, 3): the other experts' first part
  CHECK(local(4) == 2 * 3);
  CHECK(unsharded_numel(p, {8, 0, 4}) == 6 * 3);
  p.expert_parallel = false;
  CHECK(padded_shard_numel(p, {8, 0, 4}) == 3);
}

TEST_CASE("another dimension than the first") {
  Parameter p{"p", {5, 8, 3}, DType::float32};
  p.shard_dim = 1;
  CHECK(shard_dim(p, {4, 0}) == 1);
  CHECK(sharded_size(p, {4, 0}) == 8);
  CHECK(padded_rows(p, {4, 0}) == 2);
  CHECK(padded_shard_numel(p, {4, 3}) == 5 * 2 * 3);
  CHECK(local_shard_numel(p, {4, 3}) == 5 * 2 * 3);
  CHECK(unsharded_numel(p, {4, 0}) == p.numel());
}

TEST_CASE("fewer experts than ranks are cut along their second dimension") {
  Parameter p{"experts", {2, 8, 3}, DType::float32};
  p.expert_parallel = true;
  CHECK(shard_dim(p, {8, 0, 4}) == 0);  // two ranks have the same experts
  CHECK(shard_dim(p, {8, 0, 2}) == 1);  // four have
  CHECK(padded_shard_numel(p, {8, 0, 2}) == 2 * 2 * 3);
  p.expert_parallel = false;
  CHECK(shard_dim(p, {8, 0}) == 0);
}

TEST_CASE("padded shards are equal on every rank and cover the parameter") {
  for (std::int64_t d0 = 1; d0 < 40; ++d0) {
    for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
      const Parameter p{"p", {d0, 3, 2}, DType::bfloat16};
      std::uint64_t local = 0;
      for (std::uint32_t r = 0; r < ranks; ++r) {
        local += local_shard_numel(p, {ranks, r});
        REQUIRE(local_shard_numel(p, {ranks, r}) <= padded_shard_numel(p, {ranks, r}));
      }
      REQUIRE(local == p.numel());
      REQUIRE(unsharded_numel(p, {ranks, 0}) >= p.numel());
      REQUIRE(unsharded_numel(p, {ranks, 0}) == ranks * padded_shard_numel(p, {ranks, 0}));
      REQUIRE(unsharded_numel(p, {ranks, 0}) < p.numel() + ranks * 6U);  // less than a row more a rank
    }
  }
}

TEST_CASE("an uneven parameter of the reference runs") {
  const Parameter p{"fc", {5003, 5003}, DType::float32};
  CHECK(padded_rows(p, {4, 0}) == 1251);
  CHECK(unsharded_numel(p, {4, 0}) * 4 == 100'140'048);
  CHECK(p.numel() * 4 == 100'120'036);
  CHECK(local_shard_numel(p, {4, 3}) == 1250U * 5003U);
}

TEST_CASE("an empty dimension makes empty shards") {
  const Parameter p{"p", {0, 7}, DType::float32};
  CHECK(padded_shard_numel(p, {4, 0}) == 0);
  CHECK(local_shard_numel(p, {4, 3}) == 0);
}

// The numbers of docs/ranks.md, "Uneven shards".
TEST_CASE("rank 0's shards are the fullest, and how much less the last ranks hold") {
  struct Shape {
    std::int64_t d0, d1;
    int times;
  };
  const auto least_share = [](const std::vector<Shape>& shapes, std::uint32_t ranks) {
    std::vector<std::uint64_t> held(ranks);
    for (const Shape& shape : shapes)
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        held[rank] += static_cast<std::uint64_t>(shape.times) *
                      local_shard_numel({"p", {shape.d0, shape.d1}, DType::float32}, {ranks, rank});
    CHECK(std::is_sorted(held.rbegin(), held.rend()));
    return static_cast<double>(held.back()) / static_cast<double>(held.front());
  };
  // Llama-3-8B: embedding and head; of 32 blocks q and o, k and v, gate and up, down.
  const std::vector<Shape> llama{
      {128256, 4096, 2}, {4096, 4096, 64}, {1024, 4096, 64}, {14336, 4096, 64}, {4096, 14336, 32}};
  CHECK(least_share(llama, 64) == 1);
  CHECK(least_share(llama, 48) == Approx(0.8034).epsilon(1e-3));
  // Qwen3-8B: 151,936 rows of its embedding and head; of 36 blocks likewise, with 12,288 in the MLP.
  const std::vector<Shape> qwen{
      {151936, 4096, 2}, {4096, 4096, 72}, {1024, 4096, 72}, {12288, 4096, 72}, {4096, 12288, 36}};
  CHECK(least_share(qwen, 96) == Approx(0.6837).epsilon(1e-3));
}

}  // namespace
}  // namespace foreshard
