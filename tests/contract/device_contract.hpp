// What every back end must keep, whatever it runs on: the suite behind core/device.
//
// Call device_contract() and memory_contract() from one TEST_CASE each; every check is a SECTION. They use
// nothing but the seam, and wait for nothing but synchronisations, so a CUDA back end runs them unchanged.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/device/device.hpp"
#include "core/device/device_memory.hpp"
#include "tests/catch.hpp"

namespace foreshard::contract {

struct DeviceSubject {
  std::function<std::unique_ptr<Device>()> make;
  bool virtual_time = true;  ///< host_work() moves the clock by what it is told
  bool one_clock = true;     ///< host_now() and timings() are on one clock
  bool nodes_timed = true;   ///< timings() tells the nodes of a CUDA graph apart
};

inline OpId kernel(Device& device, StreamId stream, std::int64_t ns = 20'000) {
  return device.launch(stream, {.kernel_class = KernelClass::memory_bound, .work = {ns}, .label = {}});
}

inline bool after(const Device& device, OpId later, OpId earlier) {
  return device.timings()[later.value].start >= device.timings()[earlier.value].end;
}

inline void ordering_contract(Device& device, StreamId side) {
  SECTION("ids count in issue order over all streams, and timings are in order") {
    CHECK(kernel(device, kComputeStream) == OpId{0});
    CHECK(kernel(device, side) == OpId{1});
    CHECK(device.copy(side, {.bytes = 4096, .work = {}, .label = {}}) == OpId{2});
    device.synchronize();
    REQUIRE(device.timings().size() == 3);
    Nanoseconds issue;
    for (const OpTiming& timing : device.timings()) {
      CHECK(issue <= timing.issue);
      CHECK(timing.issue <= timing.start);
      CHECK(timing.start <= timing.end);
      issue = timing.issue;
    }
  }
  SECTION("a stream runs its ops in order") {
    const OpId first = kernel(device, side, 200'000);
    const OpId copy = device.copy(side, {.bytes = 4096, .work = {}, .label = {}});
    const OpId last = kernel(device, side, 0);
    device.synchronize();
    CHECK(after(device, copy, first));
    CHECK(after(device, last, copy));
  }
  SECTION("a wait orders what comes after it, through other streams too") {
    const StreamId third = device.create_stream({"third", 0});
    const OpId first = kernel(device, kComputeStream, 200'000);
    device.stream_wait_event(side, device.record_event(kComputeStream));
    device.stream_wait_event(third, device.record_event(side));  // the side stream holds only the wait
    const OpId last = kernel(device, third);
    device.synchronize();
    CHECK(after(device, last, first));
  }
  SECTION("a wait does not order what came before it, and an event covers only what came before it") {
    const EventId early = device.record_event(kComputeStream);
    kernel(device, kComputeStream);
    device.stream_wait_event(side, early);
    kernel(device, side);
    device.synchronize();
    CHECK(device.event_complete(early));
  }
  SECTION("kernels of one communicator run in issue order on different streams") {
    const CommunicatorId world = device.create_communicator({"world", 1, 1});
    const CollectiveWork gather{CollectiveKind::all_gather, Transport::nccl, 1 << 20, {}};
    const CollectiveWork scatter{CollectiveKind::reduce_scatter, Transport::nccl, 1 << 20, {}};
    const OpId first = device.collective(side, world, gather);
    const OpId second = device.collective(kComputeStream, world, scatter);
    const OpId third = device.collective(side, world, gather);
    device.synchronize();
    CHECK(after(device, second, first));
    CHECK(after(device, third, second));
  }
}

inline void host_contract(const DeviceSubject& subject, Device& device, StreamId side) {
  SECTION("an event that is complete has all earlier work behind it, and stays complete") {
    const OpId before = kernel(device, side, 100'000);
    const EventId event = device.record_event(side);
    device.synchronize_event(event);
    CHECK(device.event_complete(event));
    const Nanoseconds known = device.host_now();
    kernel(device, side, 100'000);
    CHECK(device.event_complete(event));
    device.synchronize();
    if (subject.one_clock) CHECK(device.timings()[before.value].end <= known);
  }
  SECTION("an event on an empty stream is complete") {
    const EventId event = device.record_event(side);
    device.synchronize_event(event);
    CHECK(device.event_complete(event));
  }
  SECTION("synchronising covers the stream, or everything") {
    kernel(device, side, 100'000);
    const EventId on_side = device.record_event(side);
    device.synchronize_stream(side);
    CHECK(device.event_complete(on_side));
    kernel(device, kComputeStream, 100'000);
    kernel(device, side, 50'000);
    const EventId first = device.record_event(kComputeStream);
    const EventId second = device.record_event(side);
    device.synchronize();
    CHECK(device.event_complete(first));
    CHECK(device.event_complete(second));
  }
  SECTION("the host's clock never goes back, and asking takes no time from anyone") {
    Nanoseconds before = device.host_now();
    const auto check_clock = [&] {
      const Nanoseconds now = device.host_now();
      CHECK(now >= before);
      before = now;
    };
    for (int i = 0; i < 3000; ++i) {  // more than a launch queue holds: a launch may block
      kernel(device, kComputeStream, 100);
      if (i % 100 == 0) check_clock();
    }
    const Nanoseconds start = device.host_now();
    device.host_work({5000});
    if (subject.virtual_time) CHECK(device.host_now() - start == Nanoseconds{5000});
    check_clock();
    static_cast<void>(device.event_complete(device.record_event(kComputeStream)));
    check_clock();
    device.synchronize();
    check_clock();
  }
}

/// One launch of a graph that goes to the side stream and back; its ops in order.
inline std::vector<OpId> launch_graph(Device& device, StreamId side, CommunicatorId world) {
  const CollectiveWork gather{CollectiveKind::all_gather, Transport::nccl, 1 << 20, {}};
  std::vector<OpId> ops;
  device.begin_graph_launch();
  ops.push_back(kernel(device, kComputeStream, 200'000));
  device.stream_wait_event(side, device.record_event(kComputeStream));
  ops.push_back(device.collective(side, world, gather));
  ops.push_back(kernel(device, side, 50'000));
  device.stream_wait_event(kComputeStream, device.record_event(side));
  ops.push_back(kernel(device, kComputeStream, 100'000));
  ops.push_back(device.collective(kComputeStream, world, gather));
  device.end_graph_launch();
  return ops;
}

inline void graph_contract(const DeviceSubject& subject, Device& device, StreamId side) {
  if (!device.can_launch_graphs()) return;
  SECTION("each launch of a graph runs its ops in the order of streams and events, and what comes behind it after it") {
    const CommunicatorId world = device.create_communicator({"world", 1, 1});
    for (int i = 0; i < 3; ++i) {
      const OpId before = kernel(device, kComputeStream, 100'000);
      const std::vector<OpId> ops = launch_graph(device, side, world);
      const OpId behind = kernel(device, side);
      static_cast<void>(device.collective(side, world, {CollectiveKind::all_gather, Transport::nccl, 1 << 20, {}}));
      device.synchronize();
      CHECK(after(device, ops.front(), before));
      CHECK(after(device, behind, ops[2]));
      for (std::size_t k = 1; subject.nodes_timed && k < ops.size(); ++k) CHECK(after(device, ops[k], ops[k - 1]));
      CHECK(ops.back().value - ops.front().value == ops.size() - 1);
    }
  }
}

inline void device_contract(const DeviceSubject& subject) {
  const std::unique_ptr<Device> device = subject.make();
  const StreamId side = device->create_stream({"side", -1});
  CHECK(side != kComputeStream);
  ordering_contract(*device, side);
  host_contract(subject, *device, side);
  graph_contract(subject, *device, side);
}

struct MemorySubject {
  std::function<std::unique_ptr<DeviceMemory>()> make;  ///< at least 1 GiB of it free
};

inline void memory_contract(const MemorySubject& subject) {
  const std::unique_ptr<DeviceMemory> memory = subject.make();
  const MemoryInfo at_start = memory->info();
  REQUIRE(at_start.free <= at_start.total);
  REQUIRE(at_start.free >= kGiB);

  SECTION("ranges never overlap, of whatever kind, freed ones or not") {
    std::map<Address, Bytes> live;
    for (unsigned i = 0; i < 60; ++i) {
      const Bytes size = (1 + i * 7 % 11) * 2 * kMiB;
      const std::optional<Address> address = memory->allocate(static_cast<MemoryKind>(i % 3), size);
      REQUIRE(address);
      const auto next = live.lower_bound(*address);
      CHECK((next == live.end() || *address + size <= next->first));
      CHECK((next == live.begin() || std::prev(next)->first + std::prev(next)->second <= *address));
      live.emplace(*address, size);
      if (i % 3 != 2) continue;
      memory->free(live.begin()->first);
      live.erase(live.begin());
    }
    for (const auto& [address, size] : live) memory->free(address);
  }
  SECTION("what does not fit fails, and changes nothing") {
    const MemoryInfo before = memory->info();
    CHECK_FALSE(memory->allocate(MemoryKind::device, before.total + 2 * kMiB));
    const std::optional<Address> range = memory->reserve(2 * before.total);
    REQUIRE(range);
    CHECK_FALSE(memory->map(*range, round_up(before.total + 2 * kMiB, 2 * kMiB)));
    CHECK(memory->info().free >= before.free);  // a driver may give back its own reserve when it is asked for too much
    CHECK(memory->map(*range, 4 * kMiB));       // nothing is mapped there
    memory->unmap(*range, 4 * kMiB);
    memory->release(*range);
  }
  SECTION("memory is counted, and comes back") {
    const std::optional<Address> block = memory->allocate(MemoryKind::device, 64 * kMiB);
    REQUIRE(block);
    CHECK(memory->info().free <= at_start.free - 64 * kMiB);
    memory->free(*block);
    const std::optional<Address> range = memory->reserve(kGiB);
    REQUIRE(range);
    CHECK(memory->map(*range, 20 * kMiB));
    CHECK(memory->map(*range + 20 * kMiB, 20 * kMiB));
    memory->unmap(*range, 20 * kMiB);
    memory->unmap(*range + 20 * kMiB, 20 * kMiB);
    memory->release(*range);
    CHECK(memory->info().free == at_start.free);
    CHECK(memory->info().total == at_start.total);
  }
}

}  // namespace foreshard::contract
