// The CUDA back end against the contract of core/device, and what only a real GPU shows.

#include "gpu/cuda/cuda_device.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "tests/contract/device_contract.hpp"
#include "tests/gpu/cuda/one_gpu.hpp"
#include "tests/gpu/cuda/spin_executor.hpp"

namespace foreshard::gpu {
namespace {

/// What a device needs, in the order in which it may go.
struct Rig {
  std::unique_ptr<Executor> executor = make_spin_executor();
  SingleRankBootstrap bootstrap;
  Groups groups{bootstrap, {Transport::nccl, Transport::low_contention}};
  std::unique_ptr<CudaMemory> memory = require(CudaMemory::create({.groups = &groups}));

  std::unique_ptr<CudaDevice> device(Timing timing) {
    return require(CudaDevice::create(*executor, *memory, {.timing = timing}));
  }
};

TEST_CASE("the CUDA device keeps the contract of a back end, timed by CUPTI") {
  if (!has_gpu()) FORESHARD_SKIP("no CUDA GPU here");
  Rig rig;
  contract::device_contract({.make = [&] { return rig.device(Timing::activities); }, .virtual_time = false});
}

TEST_CASE("the CUDA device keeps the contract of a back end, timed by events") {
  if (!has_gpu()) FORESHARD_SKIP("no CUDA GPU here");
  Rig rig;
  // An event's time is a float of milliseconds since an event whose host time is known to some microseconds.
  contract::device_contract(
      {.make = [&] { return rig.device(Timing::events); }, .virtual_time = false, .one_clock = false});
}

TEST_CASE("CUDA memory keeps the contract of a back end") {
  if (!has_gpu()) FORESHARD_SKIP("no CUDA GPU here");
  Rig rig;
  contract::memory_contract({.make = [&] { return require(CudaMemory::create({.groups = &rig.groups})); }});
}

TEST_CASE("CUPTI's and events' lengths of an op agree with what the kernel takes") {
  if (!has_gpu()) FORESHARD_SKIP("no CUDA GPU here");
  Rig rig;
  for (const Timing timing : {Timing::activities, Timing::events}) {
    const auto device = rig.device(timing);
    INFO("timing " << static_cast<int>(device->clock().timing()) << " " << device->clock().caveat());
    CHECK(device->clock().timing() == timing);
    contract::kernel(*device, kComputeStream, 0);
    const OpId op = contract::kernel(*device, kComputeStream, 2'000'000);
    const OpId next = contract::kernel(*device, kComputeStream, 1'000'000);
    device->synchronize();
    const OpTiming first = device->timings()[op.value];
    const OpTiming second = device->timings()[next.value];
    CHECK((first.end - first.start).us() == Approx(2000).epsilon(0.02));
    CHECK((second.end - second.start).us() == Approx(1000).epsilon(0.02));
    CHECK((second.start - first.end).us() < 50);
    CHECK(first.issue < second.issue);
    CHECK(second.issue < first.end);  // the host went on
  }
}

TEST_CASE("marked ops tell when they ended without any recording") {
  if (!has_gpu()) FORESHARD_SKIP("no CUDA GPU here");
  Rig rig;
  const auto device = rig.device(Timing::issue);
  const std::array<OpId, 2> ops{OpId{1}, OpId{4}};
  device->clock().mark(ops);
  for (int i = 0; i < 5; ++i) contract::kernel(*device, kComputeStream, 500'000);
  device->synchronize();
  const auto ends = device->clock().marked();
  REQUIRE(ends.size() == 2);
  CHECK((ends.at(ops[1]) - ends.at(ops[0])).us() == Approx(1500).epsilon(0.05));
}

TEST_CASE("a paced host takes the time that the workload says") {
  if (!has_gpu()) FORESHARD_SKIP("no CUDA GPU here");
  Rig rig;
  for (const bool paced : {false, true}) {
    const auto device = require(CudaDevice::create(*rig.executor, *rig.memory, {.pace_host = paced}));
    device->host_work({});
    const Nanoseconds begin = device->host_now();
    for (int i = 0; i < 10; ++i) {
      device->host_work({2'000'000});
      contract::kernel(*device, kComputeStream, 1000);
    }
    const double ms = (device->host_now() - begin).ms();
    CHECK((ms >= 20) == paced);
    CHECK(ms < 30);
    device->synchronize();
  }
}

TEST_CASE("events are used again, and their ids stay valid") {
  if (!has_gpu()) FORESHARD_SKIP("no CUDA GPU here");
  Rig rig;
  const auto device = rig.device(Timing::issue);
  const EventId first = device->record_event(kComputeStream);
  for (int i = 0; i < 20'000; ++i) static_cast<void>(device->record_event(kComputeStream));
  contract::kernel(*device, kComputeStream, 20'000'000);
  const EventId late = device->record_event(kComputeStream);
  CHECK(device->event_complete(first));
  CHECK_FALSE(device->event_complete(late));
  device->synchronize_event(late);
  CHECK(device->event_complete(late));
}

TEST_CASE("a limit is memory that is not there") {
  if (!has_gpu()) FORESHARD_SKIP("no CUDA GPU here");
  Rig rig;
  const auto memory = require(CudaMemory::create({.groups = &rig.groups, .limit = 64 * kMiB}));
  const auto half = memory->allocate(MemoryKind::device, 40 * kMiB);
  REQUIRE(half);
  CHECK(memory->info().free == 24 * kMiB);
  CHECK_FALSE(memory->allocate(MemoryKind::device, 40 * kMiB));
  const auto range = memory->reserve(kGiB);
  REQUIRE(range);
  CHECK_FALSE(memory->map(*range, 40 * kMiB));
  CHECK(memory->map(*range, 20 * kMiB));
  CHECK(memory->used() == 60 * kMiB);
  memory->unmap(*range, 20 * kMiB);
  memory->release(*range);
  memory->free(*half);
  CHECK(memory->used() == 0);
}

TEST_CASE("a failure of CUDA leaves through the edge of a run as an error") {
  if (!has_gpu()) FORESHARD_SKIP("no CUDA GPU here");
  const Result<int> result = guarded([]() -> Result<int> {
    require(cudaErrorInvalidValue, "cudaExample");
    return 1;
  });
  REQUIRE_FALSE(result);
  CHECK(result.error().what.find("cudaExample: cudaErrorInvalidValue") != std::string::npos);
}

}  // namespace
}  // namespace foreshard::gpu
