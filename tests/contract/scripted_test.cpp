#include "tests/contract/device_contract.hpp"
#include "tests/contract/scripted_device.hpp"

namespace foreshard {
namespace {

TEST_CASE("the scripted device keeps the contract of a back end") {
  contract::device_contract({.make = [] { return std::make_unique<ScriptedDevice>(); }});
}

TEST_CASE("the scripted memory keeps the contract of a back end") {
  contract::memory_contract({.make = [] { return std::make_unique<ScriptedMemory>(4 * kGiB); }});
}

TEST_CASE("the scripted device writes down every call and answers as it is told") {
  ScriptedDevice device;
  const StreamId gather = device.create_stream({"all-gather", -1});
  const CommunicatorId world = device.create_communicator({"world", 4, 4});
  device.hold_events(true);
  device.launch(kComputeStream, {.kernel_class = KernelClass::gemm, .work = {1000}, .label = {}});
  const EventId event = device.record_event(kComputeStream);
  device.stream_wait_event(gather, event);
  device.collective(gather, world, {CollectiveKind::all_gather, Transport::copy_engine, 4096, {}});
  CHECK_FALSE(device.event_complete(event));
  device.complete(event);
  CHECK(device.event_complete(event));
  device.host_work({500});
  CHECK(device.take_log() == std::vector<std::string>{
                                 "stream all-gather priority -1",
                                 "communicator world ranks 4",
                                 "launch compute gemm 1000ns",
                                 "record compute event 0",
                                 "wait all-gather event 0",
                                 "collective all-gather world all_gather copy-engine 4096 bytes",
                                 "query event 0 pending",
                                 "query event 0 complete",
                                 "host 500ns",
                             });
  CHECK(device.log().empty());
}

TEST_CASE("the scripted memory fails as it is told") {
  ScriptedMemory memory(kGiB);
  memory.fail_next(2);
  CHECK_FALSE(memory.allocate(MemoryKind::device, 2 * kMiB));
  CHECK_FALSE(memory.map(*memory.reserve(kGiB), 2 * kMiB));
  CHECK(memory.allocate(MemoryKind::symmetric, 2 * kMiB));
  CHECK(memory.log().back() == "allocate symmetric 2097152 bytes");
}

}  // namespace
}  // namespace foreshard
