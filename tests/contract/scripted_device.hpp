// A back end whose answers a test writes down: it logs every call as one line and does nothing else.
//
// Who: tests of core/step and core/allocator, and tests/contract. Ops take no time: each starts and ends at
// the host's time of its issue. Events are complete as soon as they are recorded, unless the test holds
// them. Memory ascends from 4 GiB, and fails when the test says so.
// Deterministic; one thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/device/device.hpp"
#include "core/device/device_memory.hpp"

namespace foreshard {

class ScriptedDevice final : public Device {
 public:
  ScriptedDevice();

  /// Events recorded from now on stay pending until complete() or a synchronisation names them.
  void hold_events(bool hold) { hold_events_ = hold; }
  void complete(EventId event) { pending_.erase(event.value); }
  /// One line a call, in order: "launch compute gemm 1000ns", "wait all-gather event 0", …
  [[nodiscard]] const std::vector<std::string>& log() const { return log_; }
  /// The log so far, and an empty one from now on.
  [[nodiscard]] std::vector<std::string> take_log();

  EventId record_event(StreamId stream) override;
  [[nodiscard]] bool event_complete(EventId event) override;
  void synchronize_event(EventId event) override;
  StreamId create_stream(const StreamOptions& options) override;
  CommunicatorId create_communicator(const CommunicatorOptions& options) override;
  using Device::launch;
  OpId launch(StreamId stream, const KernelLaunch& kernel) override;
  OpId copy(StreamId stream, const CopyWork& work) override;
  OpId collective(StreamId stream, CommunicatorId communicator, const CollectiveWork& work) override;
  void stream_wait_event(StreamId stream, EventId event) override;
  void synchronize() override;
  void host_work(Nanoseconds length) override;
  [[nodiscard]] bool can_launch_graphs() const override { return launches_graphs_; }
  void begin_graph_launch() override { log_.emplace_back("graph launch"); }
  void end_graph_launch() override { log_.emplace_back("graph end"); }
  void launch_graphs(bool can) { launches_graphs_ = can; }
  [[nodiscard]] Nanoseconds host_now() override { return host_now_; }
  [[nodiscard]] std::span<const OpTiming> timings() const override { return timings_; }

 private:
  OpId add_op();

  std::vector<std::string> log_;
  std::vector<std::string> streams_;
  std::vector<std::string> communicators_;
  std::vector<StreamId> event_streams_;  // by event
  std::set<std::uint32_t> pending_;      // events
  std::vector<OpTiming> timings_;
  Nanoseconds host_now_;
  bool hold_events_ = false;
  bool launches_graphs_ = true;
};

class ScriptedMemory final : public DeviceMemory {
 public:
  /// `capacity` is both total and free at the start.
  explicit ScriptedMemory(Bytes capacity) : capacity_(capacity) {}

  /// The next `count` calls of allocate() and map() fail.
  void fail_next(unsigned count) { failures_ = count; }
  [[nodiscard]] const std::vector<std::string>& log() const { return log_; }

  [[nodiscard]] std::optional<Address> allocate(MemoryKind kind, Bytes size) override;
  void free(Address address) override;
  [[nodiscard]] std::optional<Address> reserve(Bytes size) override;
  void release(Address address) override;
  [[nodiscard]] bool map(Address address, Bytes size) override;
  void unmap(Address address, Bytes size) override;
  [[nodiscard]] MemoryInfo info() const override { return {capacity_ - used_, capacity_}; }

 private:
  [[nodiscard]] bool take(Bytes size);

  std::vector<std::string> log_;
  std::map<Address, Bytes> live_;  // of allocate()
  Address next_ = Address{4} * kGiB;
  Bytes capacity_;
  Bytes used_ = 0;
  unsigned failures_ = 0;
};

}  // namespace foreshard
