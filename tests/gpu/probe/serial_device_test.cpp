// One op after another, whatever streams they were put on, and a note of each kernel.
#include "gpu/probe/serial_device.hpp"

#include "sim/collectives/modelled_collectives.hpp"
#include "sim/engine/sim_device.hpp"
#include "tests/catch.hpp"

namespace foreshard::gpu {
namespace {

struct Bench {
  sim::MachineProfile machine = *sim::builtin_profile("h200");
  sim::ModelledCollectives collectives{machine};
  sim::SimDevice under{machine, collectives};
  SerialDevice device{under};
  StreamId side = device.create_stream({"side", -1});
};

KernelWork of(std::int64_t ns) {
  return {KernelClass::memory_bound, {ns}, 1000, 0, LabelId{7}};
}

TEST_CASE("ops of different streams run one after another") {
  Bench bench;
  const CommunicatorId world = bench.device.create_communicator({"world", 2, 2});
  const std::array ops{
      bench.device.launch(kComputeStream, of(10'000)), bench.device.launch(bench.side, of(10'000)),
      bench.device.collective(bench.side, world, {CollectiveKind::all_gather, Transport::nccl, kMiB, {}}),
      bench.device.copy(bench.side, {CopyKind::host_to_device, kMiB, {}, {}}),
      bench.device.launch(kComputeStream, of(10'000))};
  bench.device.synchronize();
  const auto timings = bench.device.timings();
  for (std::size_t i = 1; i < ops.size(); ++i) CHECK(timings[ops[i].value].start >= timings[ops[i - 1].value].end);
}

TEST_CASE("an event of any stream is complete once all before it has ended") {
  Bench bench;
  bench.device.launch(kComputeStream, of(10'000));
  const EventId event = bench.device.record_event(bench.side);
  CHECK_FALSE(bench.device.event_complete(event));
  bench.device.stream_wait_event(kComputeStream, event);
  bench.device.synchronize_event(event);
  CHECK(bench.device.event_complete(event));
}

TEST_CASE("dropped collectives take next to no time and keep their place") {
  Bench bench;
  const CommunicatorId world = bench.device.create_communicator({"world", 2, 2});
  bench.device.drop_collectives();
  const OpId dropped =
      bench.device.collective(bench.side, world, {CollectiveKind::all_gather, Transport::nccl, kGiB, {}});
  const OpId next = bench.device.launch(kComputeStream, of(10'000));
  bench.device.synchronize();
  const auto timings = bench.device.timings();
  CHECK((timings[dropped.value].end - timings[dropped.value].start).us() < 10);
  CHECK(timings[next.value].start >= timings[dropped.value].end);
  CHECK(bench.device.kernels().empty());
}

TEST_CASE("kernels are noted with what they move; what a neighbour does is not") {
  Bench bench;
  Kernel copy;
  copy.op = KernelOp::copy_out;
  copy.operands = {{0, DType::bfloat16, false, {100}, {1}}, {0, DType::float32, true, {100}, {1}}};
  const Kernel fused;
  bench.device.launch(bench.side, {of(0), &copy});
  bench.device.launch(bench.side, {of(0), &fused});
  KernelWork counted = of(0);
  counted.math.m = 50;
  bench.device.launch(kComputeStream, {counted, &copy});
  REQUIRE(bench.device.kernels().size() == 2);
  CHECK(bench.device.kernels()[0].bytes == 200);
  CHECK(bench.device.kernels()[0].label == LabelId{7});
  CHECK(bench.device.kernels()[1].bytes == 1000);
  CHECK(bench.device.kernels()[1].math.m == 50);
}

}  // namespace
}  // namespace foreshard::gpu
