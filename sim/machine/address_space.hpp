// SimMemory: device memory as a counted address space (core/device/device_memory.hpp).
//
// Who: the caching allocator of a planned run. Deterministic; one thread.
//
// Capacity is the device's total less what is taken outside the caching allocator, or a limit that is
// given. Ranges of each MemoryKind have an area of their own and follow the driver's address model
// (arenas.hpp). Virtual ranges (expandable segments) lie at ascending addresses, each a multiple of 32 MiB
// after the one before (caching allocator 4.1: 161,056 MiB for a range of 161,049 MiB).
//
// A capture may give the addresses that the driver handed out. The i-th allocate(device) gets the i-th of
// them as long as every size so far was the recorded one, and the address is not taken. From the first
// difference on the address model decides, starting from arenas around the addresses given so far;
// recorded addresses that were not reached have no further meaning.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "core/device/device_memory.hpp"
#include "sim/machine/arenas.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

struct SimMemoryOptions {
  Bytes total = 0;     ///< MemoryInfo::total
  Bytes capacity = 0;  ///< what allocate() and map() may take together
  /// Base of the first arena, whose low 8 MiB belong to the CUDA context. Any multiple of 512 MiB that
  /// leaves room below; the default is where Linux puts it without address randomisation.
  Address first_arena = 0x7f9b40000000;
  std::vector<Address> recorded_addresses = {};
  std::vector<Bytes> recorded_sizes = {};
};

/// Total and capacity of a machine; `limit` replaces the capacity where it is smaller.
[[nodiscard]] SimMemoryOptions memory_options(const MachineProfile& machine, std::optional<Bytes> limit = {});

class SimMemory final : public DeviceMemory {
 public:
  explicit SimMemory(SimMemoryOptions options);

  [[nodiscard]] std::optional<Address> allocate(MemoryKind kind, Bytes size) override;
  void free(Address address) override;
  [[nodiscard]] std::optional<Address> reserve(Bytes size) override;
  void release(Address address) override;
  [[nodiscard]] bool map(Address address, Bytes size) override;
  void unmap(Address address, Bytes size) override;
  [[nodiscard]] MemoryInfo info() const override { return {options_.capacity - used_, options_.total}; }

  [[nodiscard]] Bytes used() const { return used_; }
  /// Whether every allocate(device) so far got a recorded address.
  [[nodiscard]] bool follows_recording() const { return follows_recording_; }

 private:
  static constexpr std::size_t kKinds = 3;
  struct Range {
    Bytes size = 0;
    MemoryKind kind = MemoryKind::device;
  };

  [[nodiscard]] std::optional<Address> recorded_address(Bytes size);

  SimMemoryOptions options_;
  std::vector<Arenas> areas_;          // by MemoryKind
  std::map<Address, Range> ranges_;    // of allocate()
  std::map<Address, Bytes> reserved_;  // virtual ranges
  std::map<Address, Bytes> mapped_;    // within them, as mapped
  Address next_virtual_;
  Bytes used_ = 0;
  std::size_t recorded_used_ = 0;
  bool follows_recording_;
};

}  // namespace foreshard::sim
