// NCCL's symmetric kernels: which runs, and what their loops leave to slower ones.
#include "sim/collectives/symmetric.hpp"

#include "sim/collectives/symmetric_loops.hpp"
#include "tests/sim/collectives/machine.hpp"

namespace foreshard::sim {
namespace {

CollectivePrice scatter(const MachineProfile& machine, Bytes bytes, std::uint32_t ranks,
                        DType dtype = DType::bfloat16) {
  CollectiveRequest request{CollectiveKind::reduce_scatter, Transport::symmetric, bytes, ranks, 8};
  request.dtype = dtype;
  return ModelledCollectives(machine).price(request);
}

}  // namespace

TEST_CASE("symmetric kernels take the CTAs that traces and NCCL's model have") {
  CHECK(scatter(bare_h200(), kMiB, 8).sms == 8);
  CHECK(scatter(bare_h200(), 64 * kMiB, 8).sms == 9);
  CHECK(scatter(bare_h200(), 64 * kMiB, 4).sms == 9);
}

TEST_CASE("the formulas have reduce-scatters that a program in C called, none of 8 ranks fitted") {
  // gpu_bench_collectives, bfloat16, NCCL 2.28.9, NVLS off (docs/notes/gpu_collective_measurements.md).
  struct Row {
    std::uint32_t ranks;
    double mib, us, within;
  };
  constexpr double kFitted = 0.035, kHeld = 0.095;
  for (const Row& row : {Row{4, 1, 10.5, kFitted},
                         {4, 4, 27.4, kFitted},
                         {4, 16, 66.9, kFitted},
                         {4, 64, 258.3, kFitted},
                         {4, 256, 955.9, kFitted},
                         {4, 512, 1890.4, kFitted},
                         {4, 1024, 3767.8, kFitted},
                         {8, 1, 15.53, kHeld},
                         {8, 4, 44.41, kHeld},
                         {8, 16, 78.05, kHeld},
                         {8, 64, 296.21, kHeld},
                         {8, 256, 1092.7, kHeld},
                         {8, 512, 2134.35, kHeld},
                         {8, 1024, 4228.88, kHeld}}) {
    CAPTURE(row.ranks, row.mib);
    const auto bytes = static_cast<Bytes>(row.mib * static_cast<double>(kMiB));
    CHECK(scatter(bare_h200(), bytes, row.ranks).time.us() == Approx(row.us).epsilon(row.within));
  }
}

TEST_CASE("what the CTAs of all ranks cannot share evenly goes through slower loops") {
  constexpr double kChunk = 8192;
  constexpr double kWait = 2, kFast = 1e9;  // links so fast that waits alone count
  const auto us = [&](double part, double ctas, double element = 4) {
    return symmetric_loops_us({true, part, 8, ctas, element, kFast, kFast, kWait});
  };
  // 72 chunks of 8 KiB over 8 ranks of 9 CTAs: 2 turns of 144 warps, in each the first peer and 3 times two.
  CHECK(us(72 * kChunk, 9) == Approx(2 * 4 * kWait));
  // 64 chunks are too few: 216 of 2 KiB by packs of 4 bytes, 6 turns of 3 rounds, and 80 KiB by elements.
  CHECK(us(64 * kChunk, 9) == Approx(6 * 3 * kWait + 5 * kWait));
  CHECK(us(64 * kChunk, 9, 2) == Approx(6 * 3 * kWait + 9 * kWait));
  // With 8 CTAs the same 64 chunks are shared evenly.
  CHECK(us(64 * kChunk, 8) == Approx(2 * 4 * kWait));
  // Parts that are not whole packs lie at none in the peers' buffers.
  CHECK(us(72 * kChunk + 4, 9) > us(72 * kChunk, 9) * 1.5);
  CHECK(us(72 * kChunk + 2, 9, 2) > us(72 * kChunk + 4, 9, 2) * 2);
}

TEST_CASE("few warps with a piece store no faster than warps do") {
  // 16 chunks of 8 KiB over 8 CTAs: 64 pieces of 2 KiB to 7 peers, for 128 warps.
  const SymmetricLoops few{false, 16 * 8192, 8, 8, 1, 300, 3, 0};
  CHECK(symmetric_loops_us(few) == Approx(2048 * 7 / 3e3));
  // Twice as many are the links' to carry.
  const SymmetricLoops all{false, 32 * 8192, 8, 8, 1, 300, 3, 0};
  CHECK(symmetric_loops_us(all) == Approx(128 * 2048 * 7 / 300e3));
}

TEST_CASE("a reduce-scatter may take less time of more bytes") {
  CHECK(scatter(bare_h200(), 8 * 72 * 8 * kKiB, 8).time < scatter(bare_h200(), 4 * kMiB, 8).time.scaled(0.8));
}

}  // namespace foreshard::sim
