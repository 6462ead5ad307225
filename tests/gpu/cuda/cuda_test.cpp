// The CUDA back end against the contract of core/device, and what only a real GPU shows.

#include <cstdlib>

#include "gpu/cuda/cuda_device.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "tests/contract/device_contract.hpp"
#include "tests/gpu/cuda/one_gpu.hpp"
#include "tests/gpu/cuda/spin_executor.hpp"

namespace foreshard::gpu {
namespace {

/// As `foreshard run` has it: streams that share a hardware queue wait for each other, and times show it. Before CUDA's
/// first call.
[[maybe_unused]] const int kConnections = ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);

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
  contract::device_contract({.make = [&] { return rig.device(Timing::events); },
                             .virtual_time = false,
                             .one_clock = false,
                             .nodes_timed = false});
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

TEST_CASE("a replay of a CUDA graph takes the time of its ops, and CUPTI tells them apart") {
  if (!has_gpu()) FORESHARD_SKIP("no CUDA GPU here");
  Rig rig;
  const auto device = rig.device(Timing::activities);
  INFO(device->clock().caveat());
  REQUIRE(device->clock().timing() == Timing::activities);
  const StreamId side = device->create_stream({"side", -1});
  for (int launch = 0; launch < 3; ++launch) {
    device->begin_graph_launch();
    const OpId first = contract::kernel(*device, kComputeStream, 2'000'000);
    const OpId beside = contract::kernel(*device, side, 3'000'000);
    const OpId second = contract::kernel(*device, kComputeStream, 1'000'000);
    device->end_graph_launch();
    device->synchronize();
    CHECK(device->clock().caveat().empty());
    const auto length = [&](OpId op) {
      return (device->timings()[op.value].end - device->timings()[op.value].start).us();
    };
    CHECK(length(first) == Approx(2000).epsilon(0.02));
    CHECK(length(second) == Approx(1000).epsilon(0.02));
    CHECK(length(beside) == Approx(3000).epsilon(0.02));
    CHECK(device->timings()[beside.value].start < device->timings()[first.value].end);  // no edge between the two
  }
  CHECK(device->graph_bytes() < kGiB);
}

TEST_CASE("the end of a marked op in a CUDA graph is the launch's") {
  if (!has_gpu()) FORESHARD_SKIP("no CUDA GPU here");
  Rig rig;
  const auto device = rig.device(Timing::issue);
  const std::array<OpId, 2> ops{OpId{1}, OpId{3}};
  device->clock().mark(ops);
  for (int launch = 0; launch < 2; ++launch) {
    device->begin_graph_launch();
    for (int i = 0; i < 2; ++i) contract::kernel(*device, kComputeStream, 500'000);
    device->end_graph_launch();
  }
  device->synchronize();
  const auto ends = device->clock().marked();
  REQUIRE(ends.size() == 2);
  CHECK((ends.at(ops[1]) - ends.at(ops[0])).us() == Approx(1000).epsilon(0.1));
}

TEST_CASE("a launch that is not the captured one, and an op that cannot be captured, are errors") {
  if (!has_gpu()) FORESHARD_SKIP("no CUDA GPU here");
  Rig rig;
  const auto launches = [&](int ops, CudaDevice& device) {
    return guarded([&]() -> Result<void> {
      device.begin_graph_launch();
      for (int i = 0; i < ops; ++i) contract::kernel(device, kComputeStream, 1000);
      device.end_graph_launch();
      return {};
    });
  };
  const auto device = rig.device(Timing::issue);
  CHECK(launches(2, *device));
  const auto other = launches(3, *device);
  REQUIRE_FALSE(other);
  CHECK(other.error().what.find("has 3 ops, its capture has 2") != std::string::npos);
  CudaDeviceOptions options;
  options.name_of = [](LabelId) { return std::string("synchronises"); };
  options.make_group = [](const CommunicatorOptions&) -> Result<GroupCollectives> {
    return GroupCollectives{
        [](const CollectiveWork&, cudaStream_t stream) { return check(cudaStreamSynchronize(stream), "wait"); }};
  };
  const auto fails = require(CudaDevice::create(*rig.executor, *rig.memory, options));
  const CommunicatorId two = fails->create_communicator({"two", 2, 2});
  const auto refused = guarded([&]() -> Result<void> {
    fails->begin_graph_launch();
    static_cast<void>(fails->collective(kComputeStream, two, {CollectiveKind::all_gather, Transport::nccl, 1024, {}}));
    fails->end_graph_launch();
    return {};
  });
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("op 0 of the step's passes ('synchronises') cannot be captured") !=
        std::string::npos);
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
