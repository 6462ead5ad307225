// A Device without time: every op is done as soon as it is issued. It shows the order of the host's calls, which is all
// that a caching allocator without record_stream follows; and memory that never ends, so that nothing is retried.
//
// Who: derive.hpp. The host's clock moves on by one nanosecond with each look at it, so that what was asked for between
// two looks is told apart.
#pragma once

#include <array>
#include <vector>

#include "core/device/device.hpp"
#include "core/device/device_memory.hpp"

namespace foreshard::sim {

class HostOrderDevice final : public Device {
 public:
  StreamId create_stream(const StreamOptions&) override { return StreamId{streams_++}; }
  CommunicatorId create_communicator(const CommunicatorOptions&) override { return CommunicatorId{communicators_++}; }

  using Device::launch;
  OpId launch(StreamId, const KernelLaunch&) override { return next(); }
  OpId copy(StreamId, const CopyWork&) override { return next(); }
  OpId collective(StreamId, CommunicatorId, const CollectiveWork&) override { return next(); }

  EventId record_event(StreamId) override { return EventId{events_++}; }
  bool event_complete(EventId) override { return true; }
  void synchronize_event(EventId) override {}
  void stream_wait_event(StreamId, EventId) override {}
  void synchronize() override {}

  void host_work(Nanoseconds) override {}
  [[nodiscard]] Nanoseconds host_now() override { return {++now_}; }
  [[nodiscard]] std::span<const OpTiming> timings() const override { return timings_; }

 private:
  OpId next() {
    timings_.emplace_back();
    return OpId{static_cast<decltype(OpId::value)>(timings_.size() - 1)};
  }

  std::uint32_t streams_ = 1;  // the compute stream is there from the beginning
  std::uint32_t communicators_ = 0;
  std::uint32_t events_ = 0;
  std::int64_t now_ = 0;
  std::vector<OpTiming> timings_;
};

class EndlessMemory final : public DeviceMemory {
 public:
  [[nodiscard]] std::optional<Address> allocate(MemoryKind kind, Bytes size) override {
    return take(next_[static_cast<std::size_t>(kind)], size);
  }
  void free(Address) override {}
  [[nodiscard]] std::optional<Address> reserve(Bytes size) override { return take(next_[0], size); }
  void release(Address) override {}
  [[nodiscard]] bool map(Address, Bytes) override { return true; }
  void unmap(Address, Bytes) override {}
  [[nodiscard]] MemoryInfo info() const override { return {kTotal, kTotal}; }

  /// The kind that an address was given as.
  [[nodiscard]] static MemoryKind kind_of(Address address) {
    return address < kFirst ? MemoryKind::device : static_cast<MemoryKind>((address - kFirst) / kArea);
  }

 private:
  static constexpr Bytes kTotal = Bytes{1} << 44U;
  static constexpr Address kFirst = Address{1} << 52U;  // above every address of a process: what is older keeps its own
  static constexpr Address kArea = Address{1} << 48U;   // of each MemoryKind

  static Address take(Address& next, Bytes size) {
    const Address address = next;
    next += size;
    return address;
  }

  std::array<Address, 3> next_{kFirst, kFirst + kArea, kFirst + 2 * kArea};  // by MemoryKind
};

}  // namespace foreshard::sim
