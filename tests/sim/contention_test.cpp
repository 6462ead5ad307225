#include "sim/engine/contention.hpp"

#include "tests/sim/fixture.hpp"

namespace foreshard::sim {
namespace {

TEST_CASE("a GEMM and a ring slow each other while both run, and only then") {
  Bench bench;
  const OpId gemm = bench.gemm(90'000);
  const OpId ring = bench.all_gather(40'000);
  bench.device.synchronize();
  // Both start at 4000. The ring ends after 40000 × 1.25 = 50000; by then the GEMM has done
  // 50000 / 1.5 = 33333.3 of its 90000, and does the rest alone.
  CHECK(bench.start(gemm) == 4000);
  CHECK(bench.start(ring) == 4000);
  CHECK(bench.end(ring) == Approx(54'000).margin(1));
  CHECK(bench.end(gemm) == Approx(54'000 + 90'000 - 33'333.3).margin(2));
}

TEST_CASE("a slowdown that was measured for the kernel replaces its class's") {
  Bench bench;
  const OpId gemm = bench.device.launch(
      kComputeStream, {.kernel_class = KernelClass::gemm, .work = {10'000}, .ring_slowdown = 2, .label = {}});
  const OpId ring = bench.all_gather(100'000);
  bench.device.synchronize();
  CHECK(bench.end(gemm) == 4000 + 20'000);
  // Slowed by the class's neighbour value for 20000, in which it did 16000.
  CHECK(bench.end(ring) == Approx(24'000 + 84'000).margin(2));
}

TEST_CASE("two rings: 1.8 times the loss of one, and each ring slower") {
  Bench bench;
  const CommunicatorId other = bench.device.create_communicator({"replicate", 4, 4});
  const OpId first = bench.all_gather(200'000);
  bench.device.collective(bench.scatter, other, {CollectiveKind::reduce_scatter, Transport::nccl, 200'000, {}});
  const OpId gemm = bench.gemm(10'000);
  bench.device.synchronize();
  // s = 1 + 0.5 × 1.8 = 1.9. Rings: 1.25 (each other) × 1.25 (GEMM) for 19000 ns, 1.25 for the rest.
  CHECK(bench.end(gemm) == Approx(4000 + 19'000).margin(1));
  CHECK(bench.end(first) == Approx(23'000 + (200'000 - 19'000 / 1.5625) * 1.25).margin(2));
}

TEST_CASE("a symmetric kernel slows compute in proportion to its SMs, a copy-engine gather not at all here") {
  Bench symmetric;
  const OpId slowed = symmetric.gemm(30'000);
  symmetric.all_gather(900'000, Transport::symmetric);
  symmetric.device.synchronize();
  CHECK(symmetric.end(slowed) == Approx(4000 + 30'000 * (1 + 0.5 * 8 / 24)).margin(1));
  Bench engines;
  const OpId free = engines.gemm(30'000);
  engines.all_gather(900'000, Transport::copy_engine);
  engines.device.synchronize();
  CHECK(engines.end(free) == 34'000);
}

TEST_CASE("a kernel on another stream and one on the compute stream slow each other") {
  Bench bench;
  const OpId main = bench.elementwise(10'000);
  const OpId side =
      bench.device.launch(bench.gather, {.kernel_class = KernelClass::gather_copy, .work = {100'000}, .label = {}});
  bench.device.synchronize();
  CHECK(bench.end(main) == 4000 + 20'000);
  CHECK(bench.end(side) == Approx(24'000 + 100'000 - 20'000 / 1.6).margin(2));
}

TEST_CASE("host copies share nothing") {
  Bench bench;
  const OpId gemm = bench.gemm(50'000);
  const OpId copy = bench.device.copy(bench.gather, {.bytes = 4096, .work = {9000}, .label = {}});
  bench.device.synchronize();
  CHECK(bench.end(gemm) == 54'000);
  CHECK(bench.end(copy) == 13'000);
}

}  // namespace
}  // namespace foreshard::sim
