// Latencies, order and the host clock of the simulated device, by hand on two or three ops.
#include "sim/engine/sim_device.hpp"

#include "sim/collectives/modelled_collectives.hpp"
#include "sim/machine/longest_op.hpp"
#include "tests/sim/engine/sim_fixture.hpp"

namespace foreshard::sim {
namespace {

TEST_CASE("ops of a stream follow one another after the kernel gap") {
  Bench bench;
  const OpId a = bench.gemm(10'000);
  const OpId b = bench.gemm(10'000);
  bench.device.synchronize();
  CHECK(bench.start(a) == 4000);
  CHECK(bench.start(b) == 14'000 + 1000);
}

TEST_CASE("the gap is longer while an all-gather ring is issued and unfinished, even one that only waits") {
  Bench bench;
  const OpId a = bench.gemm(10'000);
  const OpId b = bench.gemm(10'000);
  const OpId c = bench.gemm(1000);
  bench.device.stream_wait_event(bench.gather, bench.device.record_event(kComputeStream));
  bench.device.host_work({15'000});  // issued after a's end, before b's
  bench.all_gather(1000);
  const OpId d = bench.gemm(1000);
  bench.device.synchronize();
  CHECK(bench.start(b) == bench.end(a) + 1000);
  CHECK(bench.start(c) == bench.end(b) + 3000);
  CHECK(bench.start(d) == bench.end(c) + 3000);
}

TEST_CASE("after a long kernel both gaps are longer by what the profile says") {
  Bench bench;
  bench.machine.latencies.long_kernel = {700};
  bench.machine.latencies.long_kernel_from = {20'000};
  const OpId a = bench.gemm(19'999);
  const OpId b = bench.gemm(20'000);
  const OpId c = bench.gemm(10'000);
  bench.device.stream_wait_event(bench.gather, bench.device.record_event(kComputeStream));
  bench.device.host_work({30'000});  // issued after a's end, before b's
  bench.all_gather(1000);
  bench.device.synchronize();
  CHECK(bench.start(b) == bench.end(a) + 1000);
  CHECK(bench.start(c) == bench.end(b) + 3000 + 700);
}

TEST_CASE("neither a reduce-scatter nor a copy-engine all-gather lengthens the gap") {
  Bench bench;
  bench.device.stream_wait_event(bench.scatter, bench.device.record_event(kComputeStream));
  bench.reduce_scatter(500'000);
  bench.all_gather(1000, Transport::copy_engine);
  const OpId a = bench.elementwise(10'000);
  const OpId b = bench.elementwise(10'000);
  bench.device.synchronize();
  CHECK(bench.start(b) == bench.end(a) + 1000);
}

TEST_CASE("nodes of a graph follow one another closely, whatever is queued, and cost the host each a little") {
  Bench bench;
  bench.machine.latencies.graph_node = {200};
  bench.device.begin_graph_launch();
  const OpId a = bench.gemm(10'000);
  bench.device.stream_wait_event(bench.gather, bench.device.record_event(kComputeStream));
  bench.all_gather(100'000);
  const OpId b = bench.gemm(10'000);
  bench.device.end_graph_launch();
  CHECK(bench.device.host_now().count >= 3 * 200);
  const OpId c = bench.gemm(10'000);
  bench.device.synchronize();
  CHECK(bench.start(b) == bench.end(a) + 500);
  CHECK(bench.start(c) == bench.end(b) + 500);
}

TEST_CASE("a memset of a graph stands apart from kernels as a copy does, an eager one follows as they do") {
  const auto gaps = [](bool in_graph) {
    Bench bench;
    if (in_graph) bench.device.begin_graph_launch();
    const OpId a = bench.gemm(10'000);
    const OpId set =
        bench.device.launch(kComputeStream, {.kernel_class = KernelClass::memset, .work = {1'000}, .label = {}});
    const OpId b = bench.gemm(10'000);
    if (in_graph) bench.device.end_graph_launch();
    bench.device.synchronize();
    return std::pair{bench.start(set) - bench.end(a), bench.start(b) - bench.end(set)};
  };
  CHECK(gaps(true) == std::pair<std::int64_t, std::int64_t>{5000, 5000});
  CHECK(gaps(false) == std::pair<std::int64_t, std::int64_t>{1000, 1000});
}

TEST_CASE("nodes of a graph find no launch queue full") {
  SimOptions options;
  options.launch_queue = 2;
  Bench bench(round_machine(), options);
  bench.device.begin_graph_launch();
  for (int i = 0; i < 8; ++i) bench.gemm(1'000'000);
  bench.device.end_graph_launch();
  CHECK(bench.device.host_blocked().count == 0);
  bench.gemm(1'000);
  CHECK(bench.device.host_blocked().count > 0);
}

TEST_CASE("a memory copy has its own gap before and after it") {
  Bench bench;
  const OpId a = bench.gemm(10'000);
  const OpId copy = bench.device.copy(kComputeStream, {.bytes = 64, .work = {2000}, .label = {}});
  const OpId b = bench.gemm(10'000);
  bench.device.synchronize();
  CHECK(bench.start(copy) == bench.end(a) + 5000);
  CHECK(bench.start(b) == bench.end(copy) + 5000);
}

TEST_CASE("copies without work are priced from their bytes") {
  Bench bench;
  const OpId copy = bench.device.copy(kComputeStream, {.bytes = 55'400'000, .work = {}, .label = {}});
  bench.device.synchronize();
  CHECK(bench.end(copy) - bench.start(copy) == 5000 + 1'000'000);
}

TEST_CASE("kernels without work are priced from their bytes and class") {
  Bench bench;
  const OpId elementwise = bench.device.launch(
      kComputeStream, {.kernel_class = KernelClass::memory_bound, .work = {}, .bytes = 39'000'000, .label = {}});
  const OpId copy_in = bench.device.launch(
      kComputeStream, {.kernel_class = KernelClass::gather_copy, .work = {}, .bytes = 28'000'000, .label = {}});
  bench.device.synchronize();
  CHECK(bench.end(elementwise) - bench.start(elementwise) == 1500 + 10'000);
  CHECK(bench.end(copy_in) - bench.start(copy_in) == 1500 + 10'000);
}

TEST_CASE("work that a neighbour's kernel does takes no time and no gap") {
  Bench bench;
  const OpId a = bench.gemm(10'000);
  const KernelWork cost{.kernel_class = KernelClass::memory_bound, .work = {}, .bytes = 39'000'000, .label = {}};
  const Kernel fused;
  const OpId nothing = bench.device.launch(kComputeStream, {cost, &fused});
  const OpId b = bench.gemm(10'000);
  bench.device.synchronize();
  CHECK(bench.end(nothing) == bench.start(nothing));
  CHECK(bench.start(b) == bench.end(a) + 1000);
}

TEST_CASE("a kernel that says no elements moves its operands") {
  Bench bench;
  Kernel copy;
  copy.op = KernelOp::copy_out;
  copy.operands = {{0, DType::bfloat16, false, {9'750'000}, {1}}, {0, DType::bfloat16, false, {9'750'000}, {1}}};
  const KernelWork cost{.kernel_class = KernelClass::memory_bound, .work = {}, .bytes = 1000, .label = {}};
  const OpId op = bench.device.launch(kComputeStream, {cost, &copy});
  bench.device.synchronize();
  CHECK(bench.end(op) - bench.start(op) == 1500 + 10'000);
}

TEST_CASE("collectives of one communicator run in issue order, on whatever stream") {
  Bench bench;
  const OpId scatter = bench.reduce_scatter(50'000);
  const OpId gather = bench.all_gather(20'000);
  const CommunicatorId other = bench.device.create_communicator({"other", 4, 4});
  const StreamId third = bench.device.create_stream({"third", 0});
  const OpId free = bench.device.collective(third, other, {CollectiveKind::all_gather, Transport::nccl, 1000, {}});
  bench.device.synchronize();
  CHECK(bench.start(gather) == bench.end(scatter) + 6000);
  CHECK(bench.start(free) == 4000);
}

TEST_CASE("a stream waits for an event of another, and for what that stream itself waits for") {
  Bench bench;
  const OpId a = bench.gemm(10'000);
  const EventId first = bench.device.record_event(kComputeStream);
  bench.device.stream_wait_event(bench.gather, first);
  const EventId second = bench.device.record_event(bench.gather);  // nothing on the stream but the wait
  bench.device.stream_wait_event(bench.scatter, second);
  const OpId b = bench.elementwise(1000, bench.scatter);
  bench.device.synchronize();
  CHECK(bench.start(b) == bench.end(a) + 2000);
}

TEST_CASE("an event says so exactly from its completion on, at the host's time") {
  Bench bench;
  bench.gemm(10'000);
  const EventId event = bench.device.record_event(kComputeStream);
  bench.gemm(10'000);
  bench.device.host_work({13'999});
  CHECK_FALSE(bench.device.event_complete(event));
  bench.device.host_work({1});
  CHECK(bench.device.event_complete(event));
  CHECK(bench.device.host_now() == Nanoseconds{14'000});
  CHECK(bench.device.event_complete(bench.device.record_event(bench.gather)));
}

TEST_CASE("synchronising moves the host, once, and takes its latency only where it waited") {
  MachineProfile machine = round_machine();
  machine.latencies.synchronize = {7000};
  Bench bench(machine);
  bench.gemm(10'000);
  const EventId event = bench.device.record_event(kComputeStream);
  bench.device.synchronize_event(event);
  CHECK(bench.device.host_now() == Nanoseconds{21'000});
  bench.device.synchronize();
  bench.device.synchronize_stream(kComputeStream);
  CHECK(bench.device.host_now() == Nanoseconds{21'000});
}

TEST_CASE("a launch blocks while its own stream's queue is full") {
  SimOptions options;
  options.launch_queue = 2;
  Bench bench(round_machine(), options);
  const OpId a = bench.gemm(10'000);
  bench.gemm(10'000);
  // another stream has room
  bench.device.launch(bench.gather, {.kernel_class = KernelClass::memset, .work = {1000}, .label = {}});
  CHECK(bench.device.host_now() == Nanoseconds{0});
  const OpId c = bench.gemm(10'000);
  CHECK(bench.device.host_now() == Nanoseconds{14'000});
  CHECK(bench.device.host_blocked() == Nanoseconds{14'000});
  bench.device.synchronize();
  CHECK(bench.end(a) == 14'000);
  CHECK(bench.device.timings()[c.value].issue == Nanoseconds{14'000});
}

TEST_CASE("host work is scaled and rounded once each, or free") {
  Bench scaled(round_machine(), {.host_scale = 0.5});
  for (int i = 0; i < 3; ++i) scaled.device.host_work({101});
  CHECK(scaled.device.host_now() == Nanoseconds{3 * 51});
  Bench free(round_machine(), {.host_free = true});
  free.device.host_work({1'000'000});
  CHECK(free.device.host_now() == Nanoseconds{0});
}

TEST_CASE("a collective of many calls costs the host more than a plain one, at the host's speed") {
  Bench bench(round_machine(), {.host_scale = 2});
  bench.all_gather(1000);
  CHECK(bench.device.host_now().count == 0);
  bench.all_gather(1000, Transport::low_contention);
  CHECK(bench.device.host_now().count == 1400);
  CHECK(bench.device.host_worked().count == 1400);
}

TEST_CASE("what ran is told by kind and transport, for the largest") {
  Bench bench;
  bench.all_gather(1000);
  bench.all_gather(3000);
  bench.all_gather(2000);
  bench.all_gather(100, Transport::copy_engine);
  bench.reduce_scatter(500);
  const auto& ran = bench.device.collectives_ran();
  REQUIRE(ran.size() == 3);
  CHECK(ran[0].kind == CollectiveKind::all_gather);
  CHECK(ran[0].bytes == 3000);
  CHECK(ran[0].communicator == "world");
  CHECK(ran[0].path == "a straight line");
  CHECK(ran[1].asked == Transport::copy_engine);
  CHECK(ran[2].kind == CollectiveKind::reduce_scatter);
}

TEST_CASE("what runs depends on the call's reduction and on whose program calls") {
  const MachineProfile machine = *builtin_profile("h200");
  const ModelledCollectives prices(machine);
  const auto path = [&](CollectiveWork work, Lowering lowering) {
    SimOptions options;
    options.lowering = lowering;
    SimDevice device(machine, prices, options);
    device.collective(device.create_stream({"any", -1}), device.create_communicator({"world", 4, 4}), work);
    return device.collectives_ran().at(0).path;
  };
  using Catch::Matchers::Contains;
  CollectiveWork scatter{CollectiveKind::reduce_scatter, Transport::symmetric, kGiB, {}, DType::bfloat16};
  CHECK_THAT(path(scatter, Lowering::pytorch), Contains("NCCL ring") && Contains("ncclSum only"));
  scatter.reduction = Reduction::sum;
  CHECK_THAT(path(scatter, Lowering::pytorch), Contains("NCCL symmetric kernel"));
  scatter.bytes = 4 * 6;
  CHECK_THAT(path(scatter, Lowering::pytorch), Contains("NCCL symmetric kernel"));
  CHECK_THAT(path(scatter, Lowering::foreshard), Contains("NCCL ring") && Contains("4-byte words"));
}

TEST_CASE("prices that were not measured are told once each") {
  Bench bench;
  bench.all_gather(1000, Transport::low_contention);
  bench.all_gather(2000, Transport::low_contention);
  bench.all_gather(2000);
  REQUIRE(bench.device.derived().size() == 1);
  const Nanoseconds once = bench.device.derived()[0].alone;
  bench.all_gather(2000, Transport::low_contention);
  CHECK(bench.device.derived()[0].alone > once);
}

TEST_CASE("on the slowest machine the longest ops are priced at an hour and end") {
  MachineProfile machine = *builtin_profile("h200");
  for (double* rate : {&machine.rates.pcie, &machine.rates.peer, &machine.rates.hbm, &machine.rates.memory_bound})
    *rate = 1e-300;
  machine.peaks.matrix_bfloat16 = machine.rates.gemm_bf16 = machine.peaks.memory_bandwidth = 1e-300;
  machine.links.push = machine.links.ring = machine.links.gather_channel = 1e-300;
  const ModelledCollectives cost(machine);
  SimDevice device(machine, cost);
  const CommunicatorId world = device.create_communicator({"world", 8, 8});
  constexpr Bytes kMax = ~Bytes{0};
  for (const CopyKind kind :
       {CopyKind::host_to_device, CopyKind::device_to_host, CopyKind::device_to_device, CopyKind::peer_to_peer})
    device.copy(kComputeStream, {.kind = kind, .bytes = kMax, .work = {}, .label = {}});
  KernelWork gemm;
  gemm.kernel_class = KernelClass::gemm;
  gemm.math = {.kind = KernelMath::Kind::gemm, .dtype = DType::bfloat16, .m = 8192, .n = 8192, .k = 8192};
  device.launch(kComputeStream, gemm);
  device.launch(kComputeStream, {.kernel_class = KernelClass::gemm, .work = kNever, .label = {}});
  for (const Transport transport : {Transport::nccl, Transport::copy_engine, Transport::low_contention})
    device.collective(kComputeStream, world, {CollectiveKind::all_gather, transport, kMax, {}});
  device.synchronize();
  CHECK_FALSE(device.deadlock());
  for (const OpTiming& op : device.timings()) {
    CHECK(op.end - op.start > Nanoseconds{0});
    CHECK(op.end - op.start <= kLongestOp);
  }
}

}  // namespace
}  // namespace foreshard::sim
