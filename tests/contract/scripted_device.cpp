#include "tests/contract/scripted_device.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "core/base/check.hpp"
#include "core/device/collective_names.hpp"
#include "core/kernel/kernel_enum_names.hpp"

namespace foreshard {
namespace {

constexpr std::array<std::string_view, 3> kMemoryKinds{"device", "registered", "symmetric"};

}  // namespace

ScriptedDevice::ScriptedDevice() : streams_{"compute"} {}

std::vector<std::string> ScriptedDevice::take_log() {
  return std::exchange(log_, {});
}

EventId ScriptedDevice::record_event(StreamId stream) {
  const EventId event{static_cast<std::uint32_t>(event_streams_.size())};
  event_streams_.push_back(stream);
  if (hold_events_) pending_.insert(event.value);
  log_.push_back(fmt::format("record {} event {}", streams_[stream.value], event.value));
  return event;
}

bool ScriptedDevice::event_complete(EventId event) {
  FORESHARD_CHECK(event.value < event_streams_.size(), "an event that was never recorded is asked for");
  const bool complete = !pending_.contains(event.value);
  log_.push_back(fmt::format("query event {} {}", event.value, complete ? "complete" : "pending"));
  return complete;
}

void ScriptedDevice::synchronize_event(EventId event) {
  log_.push_back(fmt::format("synchronize event {}", event.value));
  std::erase_if(pending_, [&](std::uint32_t earlier) {
    return earlier <= event.value && event_streams_[earlier] == event_streams_[event.value];
  });
}

StreamId ScriptedDevice::create_stream(const StreamOptions& options) {
  log_.push_back(fmt::format("stream {} priority {}", options.name, options.priority));
  streams_.push_back(options.name);
  return StreamId{static_cast<std::uint32_t>(streams_.size() - 1)};
}

CommunicatorId ScriptedDevice::create_communicator(const CommunicatorOptions& options) {
  log_.push_back(fmt::format("communicator {} ranks {}", options.name, options.ranks));
  communicators_.push_back(options.name);
  return CommunicatorId{static_cast<std::uint32_t>(communicators_.size() - 1)};
}

OpId ScriptedDevice::add_op() {
  timings_.push_back({host_now_, host_now_, host_now_});
  return OpId{static_cast<std::uint32_t>(timings_.size() - 1)};
}

OpId ScriptedDevice::launch(StreamId stream, const KernelLaunch& kernel) {
  log_.push_back(
      fmt::format("launch {} {} {}ns", streams_[stream.value], name(kernel.cost.kernel_class), kernel.cost.work.count));
  return add_op();
}

OpId ScriptedDevice::copy(StreamId stream, const CopyWork& work) {
  log_.push_back(
      fmt::format("copy {} {} {} bytes {}ns", streams_[stream.value], name(work.kind), work.bytes, work.work.count));
  return add_op();
}

OpId ScriptedDevice::collective(StreamId stream, CommunicatorId communicator, const CollectiveWork& work) {
  log_.push_back(fmt::format("collective {} {} {} {} {} bytes", streams_[stream.value],
                             communicators_[communicator.value], name(work.kind), name(work.transport), work.bytes));
  return add_op();
}

void ScriptedDevice::stream_wait_event(StreamId stream, EventId event) {
  FORESHARD_CHECK(event.value < event_streams_.size(), "a stream waits for an event that was never recorded");
  log_.push_back(fmt::format("wait {} event {}", streams_[stream.value], event.value));
}

void ScriptedDevice::synchronize() {
  log_.emplace_back("synchronize");
  pending_.clear();
}

void ScriptedDevice::host_work(Nanoseconds length) {
  log_.push_back(fmt::format("host {}ns", length.count));
  host_now_ += length;
}

bool ScriptedMemory::take(Bytes size) {
  if (failures_ > 0) {
    --failures_;
    return false;
  }
  if (size > capacity_ - used_) return false;
  used_ += size;
  return true;
}

std::optional<Address> ScriptedMemory::allocate(MemoryKind kind, Bytes size) {
  const bool had = take(size);
  log_.push_back(
      fmt::format("allocate {} {} bytes{}", kMemoryKinds[static_cast<std::size_t>(kind)], size, had ? "" : " failed"));
  if (!had) return {};
  const Address address = next_;
  next_ += size;
  live_.emplace(address, size);
  return address;
}

void ScriptedMemory::free(Address address) {
  const auto range = live_.find(address);
  FORESHARD_CHECK(range != live_.end(), "an address that allocate() did not give is freed");
  log_.push_back(fmt::format("free {} bytes", range->second));
  used_ -= range->second;
  live_.erase(range);
}

std::optional<Address> ScriptedMemory::reserve(Bytes size) {
  log_.push_back(fmt::format("reserve {} bytes", size));
  const Address address = next_;
  next_ += size;
  return address;
}

void ScriptedMemory::release(Address) {
  log_.emplace_back("release");
}

bool ScriptedMemory::map(Address, Bytes size) {
  const bool had = take(size);
  log_.push_back(fmt::format("map {} bytes{}", size, had ? "" : " failed"));
  return had;
}

void ScriptedMemory::unmap(Address, Bytes size) {
  log_.push_back(fmt::format("unmap {} bytes", size));
  used_ -= size;
}

}  // namespace foreshard
