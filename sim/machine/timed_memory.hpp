// Device memory whose driver calls take time: what a retry of the caching allocator costs a step.
//
// Who: simulate(), whose host they keep; sim/forecast, which adds them up. From the first range that is given back on:
// what was asked for before is growth, which a process does once, in steps whose time nobody asks for (and of a
// recording they have it). A cudaMalloc that is refused before that is not counted either.
#pragma once

#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>

#include "core/device/device_memory.hpp"
#include "sim/machine/driver_calls.hpp"

namespace foreshard::sim {

/// Asks `memory`, which keeps all there is and is not owned.
class TimedMemory final : public DeviceMemory {
 public:
  struct Call {
    std::string_view name;  ///< "cudaFree"
    Nanoseconds time;
    bool waits = false;  ///< for the GPU, before that
  };
  using OnCall = std::function<void(const Call& call)>;

  /// `large_page`: of expandable segments of the large pool (AllocatorConfig::large_segment_size). Those of the small
  /// pool begin with one of their own pages, of 2 MiB.
  TimedMemory(DeviceMemory& memory, const DriverCalls& calls, Bytes large_page, OnCall on_call)
      : memory_(memory), calls_(calls), large_page_(large_page), on_call_(std::move(on_call)) {}

  [[nodiscard]] std::optional<Address> allocate(MemoryKind kind, Bytes size) override;
  void free(Address address) override;
  [[nodiscard]] std::optional<Address> reserve(Bytes size) override;
  void release(Address address) override;
  [[nodiscard]] bool map(Address address, Bytes size) override;
  void unmap(Address address, Bytes size) override;
  [[nodiscard]] MemoryInfo info() const override { return memory_.info(); }

 private:
  void take(std::string_view name, Nanoseconds time);
  void give_back(std::string_view name, Nanoseconds time);
  /// The page of the range that the address lies in.
  [[nodiscard]] Bytes& page_at(Address address);

  DeviceMemory& memory_;
  DriverCalls calls_;
  Bytes large_page_;
  OnCall on_call_;
  bool gave_back_ = false;
  std::unordered_map<Address, Bytes> sizes_;  // of allocate(); looked up alone
  std::map<Address, Bytes> pages_;            // of reserve(), by where a range begins
};

}  // namespace foreshard::sim
