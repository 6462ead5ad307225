// Device memory that logs its segments: the addresses a process got, in the order of its cudaMallocs.
//
// Who: core/step's host program, around whatever memory it was given. Passes every call on, and answers with the
// answer.
#pragma once

#include <utility>
#include <vector>

#include "core/device/device_memory.hpp"

namespace foreshard {

/// Ranges of MemoryKind::device that allocate() gave, freed ones too, in order.
struct SegmentList {
  std::vector<Address> addresses;
  std::vector<Bytes> sizes;  ///< as many
};

class SegmentLog final : public DeviceMemory {
 public:
  /// `memory` outlives this.
  explicit SegmentLog(DeviceMemory& memory) : memory_(memory) {}

  /// What allocate() gave since the last call of this.
  [[nodiscard]] SegmentList take() { return std::exchange(given_, {}); }

  [[nodiscard]] std::optional<Address> allocate(MemoryKind kind, Bytes size) override {
    const std::optional<Address> address = memory_.allocate(kind, size);
    if (address && kind == MemoryKind::device) {
      given_.addresses.push_back(*address);
      given_.sizes.push_back(size);
    }
    return address;
  }
  void free(Address address) override { memory_.free(address); }
  [[nodiscard]] std::optional<Address> reserve(Bytes size) override { return memory_.reserve(size); }
  void release(Address address) override { memory_.release(address); }
  [[nodiscard]] bool map(Address address, Bytes size) override { return memory_.map(address, size); }
  void unmap(Address address, Bytes size) override { memory_.unmap(address, size); }
  [[nodiscard]] MemoryInfo info() const override { return memory_.info(); }

 private:
  DeviceMemory& memory_;
  SegmentList given_;
};

}  // namespace foreshard
