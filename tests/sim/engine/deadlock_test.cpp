#include "sim/engine/deadlock.hpp"

#include "core/device/host_stopped.hpp"
#include "tests/sim/engine/sim_fixture.hpp"

namespace foreshard::sim {
namespace {

TEST_CASE("ranks that never come are a result: who waits for whom") {
  Bench bench;
  bench.gemm(10'000);
  bench.device.lose_peers(bench.world);
  bench.all_gather(1000);
  bench.reduce_scatter(1000);
  bench.device.stream_wait_event(kComputeStream, bench.device.record_event(bench.gather));
  const OpId last = bench.gemm(1000);
  CHECK_THROWS_AS(bench.device.synchronize(), HostStopped);
  REQUIRE(bench.device.deadlock());
  CHECK(bench.device.deadlock()->text ==
        "stream compute: op 3 waits for op 1 on stream all-gather (an event)\n"
        "stream all-gather: op 1 waits for ranks that do not come\n"
        "stream reduce-scatter: op 2 waits for op 1 on stream all-gather (same communicator)\n");
  CHECK(bench.device.deadlock()->stuck.size() == 3);
  CHECK(bench.device.timings()[last.value].start == kNever);
  const EventId event = bench.device.record_event(kComputeStream);
  CHECK_THROWS_AS(bench.device.synchronize_event(event), HostStopped);
  CHECK_FALSE(bench.device.event_complete(event));
}

TEST_CASE("a full launch queue that never drains stops the host") {
  SimOptions options;
  options.launch_queue = 1;
  Bench bench(round_machine(), options);
  bench.device.lose_peers(bench.world);
  bench.all_gather(1000);
  CHECK_THROWS_AS(bench.all_gather(1000), HostStopped);
  CHECK(bench.device.deadlock());
}

TEST_CASE("a step that ends has no deadlock") {
  Bench bench;
  bench.all_gather(1000);
  bench.device.synchronize();
  CHECK_FALSE(bench.device.deadlock());
}

}  // namespace
}  // namespace foreshard::sim
