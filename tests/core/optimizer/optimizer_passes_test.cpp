// How optimizers are cut into launches (MultiTensorApply.cuh, PyTorch 2.11).
#include "core/optimizer/optimizer_passes.hpp"

#include <algorithm>
#include <numeric>

#include "tests/catch.hpp"

namespace foreshard {
namespace {

constexpr std::uint64_t kChunk = 65536;
constexpr std::uint64_t kFull = 320 * kChunk;

std::vector<MultiTensorLaunch> cut(const std::vector<std::uint64_t>& numels, std::uint32_t depth) {
  return multi_tensor_launches(numels, depth);
}

TEST_CASE("multi-tensor launches end at 320 blocks or when their list of tensors is full") {
  CHECK(cut({kFull}, 2) == std::vector<MultiTensorLaunch>{{{0, 0, kFull}}});
  CHECK(cut({kFull + 1}, 2) == std::vector<MultiTensorLaunch>{{{0, 0, kFull}}, {{0, kFull, 1}}});
  CHECK(cut(std::vector<std::uint64_t>(65, 1), 2).size() == 2);  // 64 tensors in lists of two
  CHECK(cut(std::vector<std::uint64_t>(110, 1), 1).size() == 1);
  CHECK(cut({0, 0}, 1).empty());
}

TEST_CASE("a launch's blocks may end inside a tensor, whose rest begins the next launch") {
  const std::vector<MultiTensorLaunch> launches = cut({5, 0, kFull, 7}, 1);
  REQUIRE(launches.size() == 2);
  CHECK(launches[0] == MultiTensorLaunch{{0, 0, 5}, {2, 0, kFull - kChunk}});
  CHECK(launches[1] == MultiTensorLaunch{{2, kFull - kChunk, kChunk}, {3, 0, 7}});
  // A list of 110 tensors is not full before its last tensor is done.
  std::vector<std::uint64_t> many(110, 1);
  many.back() = kFull;
  const std::vector<MultiTensorLaunch> of_many = cut(many, 1);
  REQUIRE(of_many.size() == 2);
  CHECK(of_many[0].back() == TensorRange{109, 0, kFull - 109 * kChunk});
  CHECK(of_many[1] == MultiTensorLaunch{{109, kFull - 109 * kChunk, 109 * kChunk}});
}

/// Elements read and written.
std::uint64_t accesses(Optimizer optimizer, const std::vector<std::uint64_t>& numels) {
  std::uint64_t sum = 0;
  for (const OptimizerLaunch& launch : optimizer_launches(optimizer, numels))
    sum += elements_of(launch.ranges) * launch.pass->accesses;
  return sum;
}

TEST_CASE("a pass that casts has a list more, and its bytes") {
  const std::vector<std::uint64_t> numels(31, 8);  // of five lists a launch takes 30
  const OptimizerGroup casting{DType::float32, DType::bfloat16, {}, {}};
  const auto plain = optimizer_launches(Optimizer::adam_fused, numels);
  const auto cast = optimizer_launches(Optimizer::adam_fused, numels, true);
  CHECK(plain.size() == 1);
  REQUIRE(cast.size() == 2);
  CHECK(bytes_of(plain[0], {DType::float32, {}, {}, {}}) == 31 * 8 * 7 * 4);
  CHECK(bytes_of(cast[0], casting) + bytes_of(cast[1], casting) == 31 * 8 * (7 * 4 + 2));
  const auto groups =
      optimizer_groups(Optimizer::sgd, std::vector<OptimizerShard>{{8, DType::float32, {}},
                                                                   {8, DType::float32, DType::bfloat16},
                                                                   {8, DType::float32, DType::bfloat16}});
  REQUIRE(groups.size() == 2);
  CHECK(groups[1].cast == DType::bfloat16);
  CHECK(groups[1].places == std::vector<std::size_t>{1, 2});
}

TEST_CASE("launches are of one param_group, and of one dtype in it") {
  const std::vector<OptimizerShard> shards{
      {8, DType::float32, {}, 0}, {8, DType::bfloat16, {}, 0}, {8, DType::float32, {}, 0}, {8, DType::float32, {}, 1}};
  const auto groups = optimizer_groups(Optimizer::adam, shards);
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].places == std::vector<std::size_t>{1});  // the dtype that is seen last
  CHECK(groups[1].places == std::vector<std::size_t>{0, 2});
  CHECK(groups[2].places == std::vector<std::size_t>{3});
}

TEST_CASE("every pass handles every element once, in order") {
  const std::vector<std::uint64_t> numels{3 * kFull + 11, 0, 70'000, 1, kFull};
  const std::uint64_t elements = std::accumulate(numels.begin(), numels.end(), std::uint64_t{0});
  for (const Optimizer optimizer : {Optimizer::adam, Optimizer::adam_fused, Optimizer::sgd}) {
    const OptimizerPass* pass = nullptr;
    std::vector<std::uint64_t> done = numels;
    for (const OptimizerLaunch& launch : optimizer_launches(optimizer, numels)) {
      if (launch.pass != pass) {
        CHECK(done == numels);
        done.assign(numels.size(), 0);
        pass = launch.pass;
      }
      for (const TensorRange& range : launch.ranges) {
        CHECK(range.first == done[range.tensor]);
        CHECK(range.numel > 0);
        done[range.tensor] += range.numel;
      }
    }
    CHECK(done == numels);
  }
  CHECK(accesses(Optimizer::adam, numels) == 18 * elements);
  CHECK(accesses(Optimizer::adam_single, numels) == 18 * elements);
  CHECK(accesses(Optimizer::adam_fused, numels) == 7 * elements);
  CHECK(accesses(Optimizer::sgd, numels) == 3 * elements);
}

TEST_CASE("single-tensor Adam goes parameter by parameter, each op in one launch") {
  const std::vector<std::uint64_t> numels{kFull + 1, 0, 4};
  const std::vector<OptimizerLaunch> launches = optimizer_launches(Optimizer::adam_single, numels);
  REQUIRE(launches.size() == 14);
  for (std::size_t i = 0; i < 14; ++i) {
    CHECK(launches[i].ranges == (i < 7 ? MultiTensorLaunch{{0, 0, kFull + 1}} : MultiTensorLaunch{{2, 0, 4}}));
    CHECK(launches[i].pass == launches[i % 7].pass);
  }
}

TEST_CASE("a pass reads and writes what it is priced for") {
  const std::vector<std::uint64_t> one{1};
  for (const Optimizer optimizer : {Optimizer::adam, Optimizer::adam_single})
    for (const OptimizerLaunch& launch : optimizer_launches(optimizer, one)) {
      std::vector<OptimizerTensor> inputs(launch.pass->lists.begin() + 1, launch.pass->lists.end());
      std::sort(inputs.begin(), inputs.end());
      inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());  // a gradient squared is read once
      CHECK(1 + inputs.size() == launch.pass->accesses);
    }
}

}  // namespace
}  // namespace foreshard
