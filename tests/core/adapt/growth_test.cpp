// What adapt does grows with the program: with its microbatches, and with its blocks.
#include "tests/growth.hpp"

#include "core/adapt/adapt.hpp"
#include "tests/core/adapt/small_program.hpp"

namespace foreshard::test {
namespace {

Workload recorded(std::uint32_t blocks) {
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  return small_workload(s, blocks);
}

TEST_CASE("checkpointing and accumulating a recording is linear in the microbatches") {
  const Workload w = recorded(8);
  const double exponent = growth_exponent(
      [&](unsigned microbatches) {
        Workload rewritten = w;
        REQUIRE(set_microbatches(rewritten, 1, microbatches));
        REQUIRE(checkpoint_blocks(rewritten));
      },
      16, 512);
  INFO("exponent " << exponent);
  CHECK(exponent < kLinearWithin);
}

TEST_CASE("rewriting a recording is linear in its blocks") {
  const Workload few = recorded(64);
  const Workload many = recorded(1024);
  const double exponent = growth_exponent(
      [&](unsigned blocks) {
        Workload rewritten = blocks == 64 ? few : many;
        REQUIRE(set_microbatches(rewritten, 1, 4));
        REQUIRE(set_microbatches(rewritten, 4, 2));
        REQUIRE(merge_units(rewritten, 2));
        REQUIRE(checkpoint_blocks(rewritten));
      },
      64, 1024);
  INFO("exponent " << exponent);
  CHECK(exponent < kLinearWithin);
}

}  // namespace
}  // namespace foreshard::test
