// Speed of the simulated device: ops a second, on a step shaped like FSDP2's.
#include <benchmark/benchmark.h>

#include "sim/collectives/modelled_collectives.hpp"
#include "sim/engine/sim_device.hpp"
#include "sim/machine/address_space.hpp"

namespace foreshard::sim {
namespace {

/// 40 units, forward and backward: an all-gather of two copy-ins and a ring on streams of their own, 40 compute
/// kernels, a reduce-scatter in backward; some 3,700 ops, and as many events as FSDP2 records.
std::size_t play_step(SimDevice& device, StreamId copy_in, StreamId gather, StreamId scatter, CommunicatorId world) {
  const KernelWork gemm{KernelClass::gemm, {40'000}, 0, 0, {}};
  const KernelWork elementwise{KernelClass::memory_bound, {12'000}, 0, 0, {}};
  const KernelWork copy{KernelClass::gather_copy, {25'000}, 0, 0, {}};
  for (int unit = 0; unit < 80; ++unit) {
    device.host_work({30'000});
    device.launch(copy_in, copy);
    device.launch(copy_in, copy);
    device.stream_wait_event(gather, device.record_event(copy_in));
    device.collective(gather, world, {CollectiveKind::all_gather, Transport::nccl, 120'000'000, {}});
    const EventId gathered = device.record_event(gather);
    device.stream_wait_event(kComputeStream, gathered);
    for (int i = 0; i < 40; ++i) {
      device.host_work({6000});
      device.launch(kComputeStream, i % 3 == 0 ? gemm : elementwise);
    }
    if (unit < 40) continue;
    device.stream_wait_event(scatter, device.record_event(kComputeStream));
    device.collective(scatter, world, {CollectiveKind::reduce_scatter, Transport::nccl, 240'000'000, {}});
    benchmark::DoNotOptimize(device.event_complete(gathered));
  }
  device.synchronize();
  return device.timings().size();
}

void step(benchmark::State& state) {
  const MachineProfile machine = *builtin_profile("h200");
  const ModelledCollectives cost(machine);
  std::size_t ops = 0;
  for (auto _ : state) {
    SimDevice device(machine, cost);
    const StreamId copy_in = device.create_stream({"copy-in", -1});
    const StreamId gather = device.create_stream({"all-gather", -1});
    const StreamId scatter = device.create_stream({"reduce-scatter", -1});
    ops += play_step(device, copy_in, gather, scatter, device.create_communicator({"world", 4, 4}));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(ops));
}
BENCHMARK(step)->Unit(benchmark::kMillisecond);

void segments(benchmark::State& state) {
  const MachineProfile machine = *builtin_profile("h200");
  for (auto _ : state) {
    SimMemory memory(memory_options(machine));
    for (Bytes i = 0; i < 200; ++i)
      benchmark::DoNotOptimize(memory.allocate(MemoryKind::device, (1 + i % 40) * 2 * kMiB));
  }
  state.SetItemsProcessed(state.iterations() * 200);
}
BENCHMARK(segments)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace foreshard::sim
