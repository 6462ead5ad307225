// The seam of device memory: what the caching allocator asks of the driver.
//
// sim/machine/address_space.hpp implements it as a counted address space, gpu/ on cudaMalloc and the
// driver's virtual memory, core/allocator/replay.hpp from a recording.
// Thread safety: one thread. Sizes are in bytes and, from the caching allocator, multiples of 2 MiB.
#pragma once

#include <optional>

#include "core/base/quantity.hpp"

namespace foreshard {

enum class MemoryKind : std::uint8_t {
  device = 0,      ///< cudaMalloc
  registered = 1,  ///< ncclMemAlloc, registered with a communicator
  symmetric = 2,   ///< symmetric memory, rendezvoused over a group
};

struct MemoryInfo {
  Bytes free = 0;   ///< cudaMemGetInfo's free
  Bytes total = 0;  ///< the device's total global memory
};

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// A fresh range of exactly `size` bytes; nothing when the device is out of memory.
  [[nodiscard]] virtual std::optional<Address> allocate(MemoryKind kind, Bytes size) = 0;
  /// Gives a range of allocate() back, whole.
  virtual void free(Address address) = 0;
  /// Reserves virtual addresses without memory behind them (cuMemAddressReserve).
  [[nodiscard]] virtual std::optional<Address> reserve(Bytes size) = 0;
  virtual void release(Address address) = 0;
  /// Creates physical pages and maps them into a reserved range; false when out of memory, and then
  /// nothing is mapped.
  [[nodiscard]] virtual bool map(Address address, Bytes size) = 0;
  virtual void unmap(Address address, Bytes size) = 0;
  [[nodiscard]] virtual MemoryInfo info() const = 0;
};

}  // namespace foreshard
