// The mechanism on a machine with round numbers (sim_fixture.hpp), and on the h200 profile what a wave costs.
#include "sim/engine/contention.hpp"

#include "core/device/host_stopped.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "tests/sim/engine/sim_fixture.hpp"

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

TEST_CASE("a slowdown that was measured for the kernel replaces the model's") {
  Bench bench;
  const OpId gemm = bench.device.launch(
      kComputeStream, {.kernel_class = KernelClass::gemm, .work = {10'000}, .ring_slowdown = 2, .label = {}});
  const OpId ring = bench.all_gather(100'000);
  bench.device.synchronize();
  CHECK(bench.end(gemm) == 4000 + 20'000);
  // Slowed 1.25 times for 20000, in which it did 16000.
  CHECK(bench.end(ring) == Approx(24'000 + 84'000).margin(2));
}

TEST_CASE("a measured slowdown shrinks with the SMs that are held, as the model's does") {
  Bench bench;
  const OpId gemm = bench.device.launch(
      kComputeStream, {.kernel_class = KernelClass::gemm, .work = {10'000}, .ring_slowdown = 2, .label = {}});
  bench.all_gather(100'000, Transport::symmetric);
  bench.device.synchronize();
  // 22 SMs cost 0.2 where 44 cost 0.5 by the model: 1 + 1 × 0.2 / 0.5.
  CHECK(bench.end(gemm) == Approx(4000 + 14'000).margin(1));
}

/// Time of a kernel of 100 us that loses `held` while 12 SMs are held, beside a collective of `left` ns on
/// `sms` SMs; something else ends every `event` ns.
double with_held_sms(double held, std::int64_t left, double sms, std::int64_t event = 1'000'000) {
  const MachineProfile machine = round_machine();
  KernelDemand kernel;
  kernel.sms = 1;
  kernel.held = held;
  kernel.persistent = true;
  CollectiveDemand collective;
  collective.sms = sms;
  constexpr std::int64_t kWork = 100'000;
  const std::array running{RunningOp{RunningOp::Role::main_kernel, kernel, {}},
                           RunningOp{RunningOp::Role::collective, {}, collective}};
  std::array shares{Share{kWork << kWorkShift, kWork << kWorkShift}, Share{left << kWorkShift, left << kWorkShift}};
  std::array<std::int64_t, 2> rates{};
  for (std::int64_t now = 0;; now += event) {
    for (Share& share : shares) share.elapsed = now;
    fill_rates(machine, running, shares, rates);
    const double rate = static_cast<double>(rates[0]) / static_cast<double>(kFullRate);
    const double to_go = static_cast<double>(shares[0].remaining) / static_cast<double>(kFullRate);
    const std::int64_t until = std::min(event, left - now);
    if (to_go / rate <= static_cast<double>(until)) return static_cast<double>(now) + to_go / rate;
    if (until < event) return static_cast<double>(left) + to_go - static_cast<double>(until) * rate;
    shares[0].remaining -= until * rates[0];
    shares[1].remaining -= until * kFullRate;
  }
}

TEST_CASE("a loss that was measured while SMs were held counts, and grows with the SMs as the model's does") {
  CHECK(with_held_sms(1.2, 1'000'000, 12) == Approx(120'000).epsilon(0.001));
  // The model: 132 / 120 and 132 / 108.
  CHECK(with_held_sms(1.2, 1'000'000, 24) == Approx(100'000 * (1 + 0.2 * (24. / 108) / (12. / 120))).epsilon(0.001));
}

TEST_CASE("late blocks of one wave begin when the collective ends and then do their full share") {
  CHECK(with_held_sms(1.9, 1'000'000, 12) == Approx(190'000).epsilon(0.001));
  CHECK(with_held_sms(1.9, 150'000, 12) == Approx(190'000).epsilon(0.001));
  CHECK(with_held_sms(1.9, 100'000, 12) == Approx(190'000).epsilon(0.001));
  CHECK(with_held_sms(1.9, 40'000, 12) == Approx(130'000).epsilon(0.001));
  CHECK(with_held_sms(2.2, 40'000, 12) == Approx(140'000).epsilon(0.001));  // no rate is below nothing
}

TEST_CASE("what else begins or ends does not change what late blocks cost") {
  for (const double held : {1.5, 1.7, 1.9, 2.0})
    for (const std::int64_t left : {1'000'000, 150'000, 110'000, 100'000, 90'000, 60'000, 40'000, 10'000})
      for (const std::int64_t event : {75'000, 20'000, 7'000}) {
        INFO(held << " " << left << " " << event);
        CHECK(with_held_sms(held, left, 12, event) == Approx(with_held_sms(held, left, 12)).epsilon(0.002));
      }
}

TEST_CASE("two rings share the link and hold the SMs of both") {
  Bench bench;
  const CommunicatorId other = bench.device.create_communicator({"replicate", 4, 4});
  const OpId first = bench.all_gather(200'000);
  bench.device.collective(bench.scatter, other, {CollectiveKind::reduce_scatter, Transport::nccl, 200'000, {}});
  const OpId gemm = bench.gemm(10'000);
  bench.device.synchronize();
  // 132 / (132 - 88) = 3. A delayed ring needs 1 / 1.25 of its link; two of them 1.6 links: 1.25 × 1.6 = 2 in all,
  // which is what the link alone costs them without the GEMM.
  CHECK(bench.end(gemm) == Approx(4000 + 30'000).margin(1));
  CHECK(bench.end(first) == Approx(4000 + 400'000).margin(2));
}

TEST_CASE("two collectives that cross nodes share the adapters, one that stays inside does not") {
  const MachineProfile machine = *builtin_profile("h100");
  const ModelledCollectives cost(machine);
  const auto running_op = [&](std::uint32_t ranks, std::uint32_t ranks_per_node) {
    const CollectiveRequest request{CollectiveKind::all_reduce, Transport::nccl, kGiB, ranks, ranks_per_node};
    return RunningOp{RunningOp::Role::collective, {}, collective_demand(machine, request, cost.price(request))};
  };
  const auto slowdowns = [&](const RunningOp& a, const RunningOp& b) {
    std::array<std::int64_t, 2> rates{};
    constexpr Share kShare{kFullRate, kFullRate};
    fill_rates(machine, std::array{a, b}, std::array{kShare, kShare}, rates);
    return std::array{static_cast<double>(kFullRate) / static_cast<double>(rates[0]),
                      static_cast<double>(kFullRate) / static_cast<double>(rates[1])};
  };
  const RunningOp rail = running_op(4, 1);  // one rank a node: nothing goes over NVLink
  const RunningOp node = running_op(8, 8);
  CHECK(rail.collective.link == 0);
  CHECK(rail.collective.network > 0.7);
  CHECK(rail.collective.traffic > 0);
  CHECK(node.collective.network == 0);
  CHECK(slowdowns(rail, rail)[0] == Approx(2 * rail.collective.network).epsilon(1e-4));
  CHECK(slowdowns(rail, node)[0] == 1);
  CHECK(slowdowns(rail, node)[1] == 1);
}

/// A plan of foreshard's program whose GEMMs are resident: they have a pressure of 0.2 on collectives, of 0.8 on
/// foreshard's own reduce-scatter, and a pressure of 1 makes reductions of symmetric kernels 1.5 times slower.
MachineProfile own_machine() {
  MachineProfile machine = round_machine();
  machine.contention.symmetric.reduce_latency = 0.5;
  machine.contention.symmetric.persistent_pressure = 0.8;
  KernelUse& gemm = machine.contention.classes[static_cast<std::size_t>(KernelClass::gemm)];
  gemm.persistent = true;
  gemm.pressure = 0.2;
  return machine;
}

struct Slowdowns {
  double kernel = 0;
  double collective = 0;
};

/// A reduce-scatter of 256 MiB, at its price, and a kernel that begins with it: one of `ns`, or for its slowdown one
/// that ends first.
Slowdowns with_reduction(const MachineProfile& machine, KernelClass kernel, Transport transport, bool upcasts) {
  const ModelledCollectives prices(machine);
  const auto run = [&](std::int64_t ns) {
    SimDevice device(machine, prices);
    const StreamId scatter = device.create_stream({"reduce-scatter", -1});
    const CommunicatorId world = device.create_communicator({"world", 2, 2});
    CollectiveWork work{CollectiveKind::reduce_scatter, transport, 256 * kMiB, {}};
    work.dtype = DType::bfloat16;
    if (upcasts) work.output_dtype = DType::float32;
    work.reduction = Reduction::sum;
    const OpId reduction = device.collective(scatter, world, work);
    const OpId gemm = device.launch(kComputeStream, {.kernel_class = kernel, .work = {ns}, .label = {}});
    device.synchronize();
    const auto time = [&](OpId op) {
      const auto& at = device.timings()[op.value];
      return static_cast<double>((at.end - at.start).count);
    };
    CollectiveRequest request{work.kind, transport, work.bytes, 2, 2};
    request.upcasts = upcasts;
    request.dtype = work.dtype;
    return Slowdowns{time(gemm) / static_cast<double>(ns),
                     time(reduction) / static_cast<double>(prices.price(request).time.count)};
  };
  return {run(10'000).kernel, run(100'000'000).collective};
}

TEST_CASE("a GEMM delays foreshard's resident reduce-scatter by what the profile says, and no other collective") {
  MachineProfile machine = own_machine();
  const auto slower = [&](Transport transport, KernelClass kernel = KernelClass::gemm) {
    return with_reduction(machine, kernel, transport, false).collective;
  };
  CHECK(slower(Transport::pull_reduce) == Approx(1 + 0.5 * 0.8).epsilon(1e-4));
  CHECK(slower(Transport::symmetric) == Approx(1 + 0.5 * 0.2).epsilon(1e-4));
  machine.contention.classes[static_cast<std::size_t>(KernelClass::memory_bound)].pressure = 0.4;  // not resident
  CHECK(slower(Transport::pull_reduce, KernelClass::memory_bound) == Approx(1 + 0.5 * 0.4).epsilon(1e-4));
  // The least that a persistent kernel has: its class's counts where that is more.
  machine.contention.symmetric.persistent_pressure = 0.1;
  CHECK(slower(Transport::pull_reduce) == Approx(1 + 0.5 * 0.2).epsilon(1e-4));
  // PyTorch's is copies and a sum: nothing of it lies on SMs before a GEMM begins.
  machine.contention.symmetric.persistent_pressure = 0.8;
  CHECK(slower(Transport::low_contention) == 1);
}

TEST_CASE("a reduce-scatter of foreshard's takes the SMs of its CTAs from a kernel, also where results are wider") {
  const MachineProfile machine = own_machine();
  const auto slower = [&](bool upcasts) {
    return with_reduction(machine, KernelClass::gemm, Transport::pull_reduce, upcasts).kernel;
  };
  CHECK(slower(false) == Approx(132. / (132 - machine.contention.own_reduce.of(2, false))).epsilon(1e-4));
  CHECK(slower(true) == Approx(132. / (132 - machine.contention.own_reduce.of(2, true))).epsilon(1e-4));
}

TEST_CASE("a measured loss stays as it is where the model sees next to none") {
  MachineProfile machine = round_machine();
  machine.contention.ring.sms = 1;  // costs a GEMM 0.008 of its time: 44 would be 66 times as much
  Bench bench(machine);
  const OpId gemm = bench.device.launch(
      kComputeStream, {.kernel_class = KernelClass::gemm, .work = {10'000}, .ring_slowdown = 2, .label = {}});
  bench.all_gather(100'000, Transport::symmetric);
  bench.device.synchronize();
  CHECK(bench.end(gemm) == Approx(4000 + 20'000).margin(1));
}

TEST_CASE("a symmetric kernel slows compute by its SMs, a copy-engine all-gather not at all here") {
  Bench symmetric;
  const OpId slowed = symmetric.gemm(30'000);
  symmetric.all_gather(900'000, Transport::symmetric);
  symmetric.device.synchronize();
  CHECK(symmetric.end(slowed) == Approx(4000 + 30'000 * 1.2).margin(1));
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

TEST_CASE("host copies and memsets share nothing") {
  Bench bench;
  const OpId gemm = bench.gemm(50'000);
  const OpId copy = bench.device.copy(bench.gather, {.bytes = 4096, .work = {9000}, .label = {}});
  const OpId set =
      bench.device.launch(bench.scatter, {.kernel_class = KernelClass::memset, .work = {1000}, .label = {}});
  bench.device.synchronize();
  CHECK(bench.end(gemm) == 54'000);
  CHECK(bench.end(copy) == 13'000);
  CHECK(bench.end(set) == 5000);
}

TEST_CASE("a ring waits for the end of a persistent kernel, a copy-engine all-gather does not") {
  MachineProfile machine = round_machine();
  machine.contention.classes[static_cast<std::size_t>(KernelClass::gemm)].persistent = true;
  Bench bench(machine);
  const OpId first = bench.gemm(50'000);
  bench.device.host_work({10'000});
  const OpId second = bench.gemm(50'000);
  const OpId ring = bench.all_gather(40'000);
  bench.device.synchronize();
  CHECK(bench.end(first) == 54'000);
  CHECK(bench.start(ring) == 54'000);    // ready at 14000
  CHECK(bench.start(second) == 57'000);  // the gap while an all-gather is queued; the ring is there already
  CHECK(bench.end(second) > 57'000 + 50'000);
  Bench engines(machine);
  engines.gemm(50'000);
  engines.device.host_work({10'000});
  const OpId copies = engines.all_gather(40'000, Transport::copy_engine);
  engines.device.synchronize();
  CHECK(engines.start(copies) == 14'000);
}

TEST_CASE("a ring that had its SMs before persistent kernels ran is not delayed by them") {
  MachineProfile machine = round_machine();
  machine.contention.classes[static_cast<std::size_t>(KernelClass::gemm)].persistent = true;
  const auto ring_time = [&](std::int64_t waits_for_ns) {
    Bench bench(machine);
    if (waits_for_ns > 0) bench.gemm(waits_for_ns);
    bench.device.host_work({10'000});
    const OpId ring = bench.all_gather(40'000);
    bench.gemm(500'000);
    bench.device.synchronize();
    return bench.end(ring) - bench.start(ring);
  };
  CHECK(ring_time(0) == 40'000);
  CHECK(ring_time(1'000) == 40'000);  // that one has ended before
  // 3 us, the gap, in which the second GEMM does not run yet.
  CHECK(ring_time(50'000) == Approx(3'000 + 37'000 * 1.25).margin(1));
  // Kernels that are not persistent lie beside it either way.
  machine.contention.classes[static_cast<std::size_t>(KernelClass::gemm)].persistent = false;
  CHECK(ring_time(0) == Approx(40'000 * 1.25).margin(1));
}

TEST_CASE("a kernel of another stream and persistent kernels take turns") {
  MachineProfile machine = round_machine();
  machine.contention.classes[static_cast<std::size_t>(KernelClass::gemm)].persistent = true;
  Bench bench(machine);
  const OpId first = bench.gemm(50'000);
  bench.device.host_work({10'000});
  const OpId side =
      bench.device.launch(bench.gather, {.kernel_class = KernelClass::gather_copy, .work = {20'000}, .label = {}});
  const OpId second = bench.gemm(50'000);
  bench.device.synchronize();
  CHECK(bench.end(first) == 54'000);
  CHECK(bench.start(side) == 54'000);  // ready at 14000; goes before the next GEMM, which is ready a gap later
  CHECK(bench.end(side) == 74'000);
  CHECK(bench.start(second) == 76'000);  // an event's wait later, in which what waits for the other kernel would start
  CHECK(bench.end(second) == 126'000);
}

TEST_CASE("what a kernel loses to pull-reduce's CTAs counts where it was measured, in proportion to their traffic") {
  MachineProfile machine = round_machine();
  machine.contention.streamed_bandwidth = 0.2e12;  // of 1e12: accesses take 1 / (1 - 0.2) as long, 0.25 more
  KernelDemand kernel;
  kernel.held = 1.1;
  kernel.streamed = 1.6;
  kernel.memory = 0.4;
  const auto slowdown = [&](const CollectiveDemand& collective) {
    const PairRates pair =
        pair_rates(machine, {RunningOp::Role::main_kernel, kernel, {}}, {RunningOp::Role::collective, {}, collective});
    return static_cast<double>(kFullRate) / static_cast<double>(pair.beside);
  };
  CHECK(slowdown({.sms = 12, .traffic = 0.2, .streams = true}) == Approx(1.6).epsilon(1e-4));
  CHECK(slowdown({.sms = 12, .traffic = 0.5, .streams = true}) == Approx(1.1 + 0.5 * 1 / 0.25).epsilon(1e-4));
  CHECK(slowdown({.sms = 12, .streams = true}) == Approx(1.1).epsilon(1e-4));  // it waits for other ranks
  // Rings and copy engines: the kernel's bytes say.
  CHECK(slowdown({.sms = 12, .traffic = 0.2}) == Approx(1.1 + 0.4 * 0.25).epsilon(1e-4));
  CHECK(slowdown({.traffic = 0.2}) == Approx(1 + 0.4 * 0.25).epsilon(1e-4));
  kernel.streamed = 0;
  CHECK(slowdown({.sms = 12, .traffic = 0.2, .streams = true}) == Approx(1.1 + 0.4 * 0.25).epsilon(1e-4));
}

TEST_CASE("only foreshard's own reduce-scatter streams memory as the probe's CTAs do") {
  const MachineProfile machine = round_machine();
  const auto streams = [&](CollectiveKind kind, Transport transport) {
    const CollectiveRequest request{kind, transport, 256 * kMiB, 2, 2};
    return collective_demand(machine, request, ModelledCollectives(machine).price(request)).streams;
  };
  CHECK(streams(CollectiveKind::reduce_scatter, Transport::pull_reduce));
  CHECK_FALSE(streams(CollectiveKind::reduce_scatter, Transport::symmetric));
  CHECK_FALSE(streams(CollectiveKind::reduce_scatter, Transport::nccl));
  CHECK_FALSE(streams(CollectiveKind::all_gather, Transport::copy_engine));
}

TEST_CASE("any kernels of the compute stream and of another of its priority take turns") {
  Bench bench;
  const StreamId optimizer = bench.device.create_stream({"optimizer", 0});
  const OpId first = bench.elementwise(10'000);
  bench.device.host_work({1000});
  const OpId step = bench.elementwise(20'000, optimizer);
  const OpId second = bench.elementwise(10'000);
  const OpId next_step = bench.elementwise(20'000, optimizer);
  bench.device.synchronize();
  CHECK(bench.end(first) == 14'000);
  CHECK(bench.start(step) == 14'000);  // ready at 5000
  CHECK(bench.end(step) == 34'000);
  CHECK(bench.start(second) == 34'000);  // ready at 15000
  CHECK(bench.end(second) == 44'000);
  CHECK(bench.start(next_step) == 44'000);  // ready at 35000
  CHECK(bench.end(next_step) == 64'000);
}

TEST_CASE("of several streams of the compute stream's priority the one whose kernel waits longest goes first") {
  Bench bench;
  const StreamId one = bench.device.create_stream({"one", 0});
  const StreamId other = bench.device.create_stream({"other", 0});
  const OpId main = bench.elementwise(50'000);
  bench.device.host_work({1000});
  const OpId earlier = bench.elementwise(20'000, other);
  bench.device.host_work({1000});
  const OpId later = bench.elementwise(20'000, one);
  bench.device.host_work({1000});
  const OpId last = bench.elementwise(20'000, other);
  bench.device.synchronize();
  CHECK(bench.start(earlier) == bench.end(main));
  CHECK(bench.start(later) == bench.end(earlier));
  CHECK(bench.start(last) == bench.end(later));
}

TEST_CASE("a GEMM has its turn between kernels of a stream of its priority") {
  MachineProfile machine = round_machine();
  machine.contention.classes[static_cast<std::size_t>(KernelClass::gemm)].persistent = true;
  Bench bench(machine);
  const StreamId optimizer = bench.device.create_stream({"optimizer", 0});
  bench.gemm(50'000);
  bench.device.host_work({1000});
  const OpId step = bench.elementwise(20'000, optimizer);
  const OpId next_step = bench.elementwise(20'000, optimizer);
  const OpId second = bench.gemm(50'000);
  bench.device.synchronize();
  CHECK(bench.start(step) == 54'000);
  CHECK(bench.start(second) == bench.end(step));  // next_step is ready 1000 later
  CHECK(bench.start(next_step) == bench.end(second));
}

TEST_CASE("two streams of the compute stream's priority leave it its turn") {
  Bench bench;
  const StreamId optimizer = bench.device.create_stream({"optimizer", 0});
  const StreamId reduce = bench.device.create_stream({"all-reduce", 0});
  bench.elementwise(10'000);
  bench.device.host_work({1000});
  std::vector<OpId> steps;
  std::vector<OpId> casts;
  for (int i = 0; i < 2; ++i) {
    steps.push_back(bench.elementwise(20'000, optimizer));
    casts.push_back(bench.elementwise(20'000, reduce));
  }
  const OpId second = bench.elementwise(10'000);
  bench.device.synchronize();
  CHECK(bench.start(second) == bench.end(steps[0]));
  CHECK(bench.start(casts[0]) >= bench.end(second));
}

TEST_CASE("a kernel of the compute stream's priority stands while one of higher priority runs") {
  Bench bench;
  const OpId step = bench.elementwise(20'000, bench.device.create_stream({"optimizer", 0}));
  bench.device.host_work({5000});
  const OpId copies = bench.elementwise(30'000, bench.gather);
  bench.device.synchronize();
  CHECK(bench.start(copies) == 9000);
  CHECK(bench.end(copies) == 39'000);
  CHECK(bench.end(step) == Approx(39'000 + 20'000 - 5000).margin(1));
}

TEST_CASE("a ring behind a kernel that a GEMM held up starts before the next GEMM") {
  MachineProfile machine = round_machine();
  machine.contention.classes[static_cast<std::size_t>(KernelClass::gemm)].persistent = true;
  Bench bench(machine);
  const OpId first = bench.gemm(50'000);
  bench.device.host_work({10'000});
  const StreamId copies = bench.device.create_stream({"copy-in", -1});
  const OpId side =
      bench.device.launch(copies, {.kernel_class = KernelClass::gather_copy, .work = {20'000}, .label = {}});
  bench.device.stream_wait_event(bench.gather, bench.device.record_event(copies));
  const OpId ring = bench.all_gather(40'000);
  const OpId second = bench.gemm(50'000);
  bench.device.synchronize();
  CHECK(bench.end(first) == 54'000);
  CHECK(bench.start(side) == 54'000);
  CHECK(bench.start(ring) == 76'000);
  CHECK(bench.start(second) == 76'000);
  CHECK(bench.end(second) > 126'000);  // beside the ring
}

TEST_CASE("waiting for SMs is not a deadlock, and peers that never come are") {
  MachineProfile machine = round_machine();
  machine.contention.classes[static_cast<std::size_t>(KernelClass::gemm)].persistent = true;
  Bench bench(machine);
  bench.device.lose_peers(bench.world);
  bench.gemm(50'000);
  const OpId ring = bench.all_gather(40'000);
  CHECK_THROWS_AS(bench.device.synchronize(), HostStopped);
  REQUIRE(bench.device.deadlock());
  CHECK(bench.device.deadlock()->stuck.size() == 1);
  CHECK(bench.start(ring) > 0);
}

/// The slowdown of a GEMM of `tiles` while `sms` SMs are held from its start to its end, on the h200 profile.
double concurrent(std::uint32_t tiles, double sms) {
  static const MachineProfile machine = *builtin_profile("h200");
  KernelDemand gemm = kernel_demand(machine, {.kernel_class = KernelClass::gemm, .work = {}, .label = {}});
  gemm.tiles = tiles;
  return slowdown_with_rings(machine, gemm, sms);
}

TEST_CASE("GEMMs lose whole waves") {
  // One wave, tiles fixed in advance: the late blocks run after the others, whatever the number of SMs held.
  CHECK(concurrent(128, 24) == Approx(1.93));
  CHECK(concurrent(128, 8) == Approx(1.93));
  // Fewer tiles than the SMs that are left: only what the ring's traffic costs.
  CHECK(concurrent(96, 24) < 1.3);
  // 4 waves, tiles handed out one by one: 488 others on 108 SMs take 5 rounds, the 24 late ones one more.
  CHECK(concurrent(512, 24) == Approx((5 + 0.93) / 4));
  CHECK(concurrent(512, 8) == Approx((5 + 0.93) / 4));
  // 13 waves: 17 and 15.
  CHECK(concurrent(1664, 24) == Approx((16 + 0.93) / 13));
  CHECK(concurrent(1664, 8) == Approx((14 + 0.93) / 13));
  CHECK(concurrent(1664, 0) == 1);
}

TEST_CASE("a GEMM whose shape is known gets its SMs back when the ring ends before it") {
  const MachineProfile machine = *builtin_profile("h200");
  RunningOp gemm{RunningOp::Role::main_kernel,
                 kernel_demand(machine, {.kernel_class = KernelClass::gemm, .work = {}, .label = {}}),
                 {}};
  gemm.kernel.tiles = 512;
  gemm.kernel.shaped = true;
  RunningOp ring{RunningOp::Role::collective, {}, {.sms = 24, .link = 0.9, .traffic = 0.2, .latency = 0.7}};
  const std::array<RunningOp, 2> running{gemm, ring};
  std::array<std::int64_t, 2> rates{};
  const auto slowdown = [&](std::int64_t gemm_ns, std::int64_t ring_ns) {
    const Share of_gemm{gemm_ns << kWorkShift, gemm_ns << kWorkShift};
    const Share of_ring{ring_ns << kWorkShift, ring_ns << kWorkShift};
    fill_rates(machine, running, std::array{of_gemm, of_ring}, rates);
    return static_cast<double>(kFullRate) / static_cast<double>(rates[0]);
  };
  CHECK(slowdown(100'000, 900'000) == Approx(1.4825).epsilon(1e-3));
  CHECK(slowdown(900'000, 100'000) < 1.3);
}

}  // namespace
}  // namespace foreshard::sim
