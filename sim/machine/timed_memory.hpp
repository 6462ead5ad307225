// Device memory whose driver calls take time: what a retry of the caching allocator costs a step.
//
// Who: simulate(), whose host they keep; sim/forecast, which adds them up. From the first range that is given back on:
// what was asked for before is growth, which a process does once, in steps whose time nobody asks for (and of a
// recording they have it).
#pragma once

#include <functional>
#include <unordered_map>

#include "core/device/device_memory.hpp"
#include "sim/machine/driver_calls.hpp"

namespace foreshard::sim {

/// Asks `memory`, which keeps all there is and is not owned.
class TimedMemory final : public DeviceMemory {
 public:
  /// How long a call takes, and whether it waits for the GPU before.
  using OnCall = std::function<void(Nanoseconds time, bool waits)>;

  TimedMemory(DeviceMemory& memory, const DriverCalls& calls, OnCall on_call)
      : memory_(memory), calls_(calls), on_call_(std::move(on_call)) {}

  [[nodiscard]] std::optional<Address> allocate(MemoryKind kind, Bytes size) override;
  void free(Address address) override;
  [[nodiscard]] std::optional<Address> reserve(Bytes size) override { return memory_.reserve(size); }
  void release(Address address) override { memory_.release(address); }
  [[nodiscard]] bool map(Address address, Bytes size) override;
  void unmap(Address address, Bytes size) override;
  [[nodiscard]] MemoryInfo info() const override { return memory_.info(); }

 private:
  void take(Nanoseconds time);
  void give_back(Nanoseconds time);

  DeviceMemory& memory_;
  DriverCalls calls_;
  OnCall on_call_;
  bool gave_back_ = false;
  std::unordered_map<Address, Bytes> sizes_;  // of allocate(); looked up alone
};

}  // namespace foreshard::sim
