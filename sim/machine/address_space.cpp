#include "sim/machine/address_space.hpp"

#include <algorithm>
#include <iterator>

#include "core/base/check.hpp"

namespace foreshard::sim {
namespace {

constexpr Bytes kContext = 8 * kMiB;             // of the first arena (caching allocator 10.3)
constexpr Bytes kVirtualGrid = 32 * kMiB;        // caching allocator 4.1
constexpr Address kFirstVirtual = 0x602000000;   // where the recordings' first expandable range lies
constexpr Address kAreaOfKind = 0x100000000000;  // 16 TiB below the area before: no kind reaches the next

}  // namespace

SimMemoryOptions memory_options(const MachineProfile& machine, std::optional<Bytes> limit) {
  SimMemoryOptions options;
  options.total = machine.memory_total;
  options.capacity = machine.memory_total - machine.memory_other;
  if (limit) options.capacity = std::min(options.capacity, *limit);
  return options;
}

SimMemory::SimMemory(SimMemoryOptions options)
    : options_(std::move(options)), next_virtual_(kFirstVirtual), follows_recording_(true) {
  FORESHARD_CHECK(options_.recorded_addresses.size() == options_.recorded_sizes.size(),
                  "as many recorded sizes as addresses");
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const Address first = options_.first_arena - kind * kAreaOfKind;
    areas_.emplace_back(first, kind == 0 ? kContext : 0);
  }
}

std::optional<Address> SimMemory::recorded_address(Bytes size) {
  if (!follows_recording_) return {};
  const std::size_t i = recorded_used_;
  follows_recording_ = i < options_.recorded_sizes.size() && options_.recorded_sizes[i] == size &&
                       areas_[0].place(options_.recorded_addresses[i], size);
  if (!follows_recording_) return {};
  ++recorded_used_;
  return options_.recorded_addresses[i];
}

std::optional<Address> SimMemory::allocate(MemoryKind kind, Bytes size) {
  if (size > options_.capacity - used_) return {};
  std::optional<Address> address;
  if (kind == MemoryKind::device) address = recorded_address(size);
  if (!address) address = areas_[static_cast<std::size_t>(kind)].allocate(size);
  ranges_.emplace(*address, Range{size, kind});
  used_ += size;
  return address;
}

void SimMemory::free(Address address) {
  const auto range = ranges_.find(address);
  FORESHARD_CHECK(range != ranges_.end(), "an address that allocate() did not give is freed");
  areas_[static_cast<std::size_t>(range->second.kind)].free(address);
  used_ -= range->second.size;
  ranges_.erase(range);
}

std::optional<Address> SimMemory::reserve(Bytes size) {
  const Address address = next_virtual_;
  next_virtual_ += round_up(size, kVirtualGrid);
  reserved_.emplace(address, size);
  return address;
}

void SimMemory::release(Address address) {
  const auto range = reserved_.find(address);
  FORESHARD_CHECK(range != reserved_.end(), "a range that reserve() did not give is released");
  const auto mapped = mapped_.lower_bound(address);
  FORESHARD_CHECK(mapped == mapped_.end() || mapped->first >= address + range->second,
                  "a range is released with memory mapped in it");
  reserved_.erase(range);
}

bool SimMemory::map(Address address, Bytes size) {
  if (size > options_.capacity - used_) return false;
  const auto range = reserved_.upper_bound(address);
  FORESHARD_CHECK(range != reserved_.begin() && address + size <= std::prev(range)->first + std::prev(range)->second,
                  "memory is mapped outside a reserved range");
  auto next = mapped_.lower_bound(address);
  FORESHARD_CHECK((next == mapped_.end() || next->first >= address + size) &&
                      (next == mapped_.begin() || std::prev(next)->first + std::prev(next)->second <= address),
                  "memory is mapped twice");
  // Neighbours become one entry, so that unmap() may cut anywhere.
  Address begin = address;
  Address end = address + size;
  if (next != mapped_.end() && next->first == end) {
    end += next->second;
    next = mapped_.erase(next);
  }
  if (next != mapped_.begin() && std::prev(next)->first + std::prev(next)->second == begin) {
    begin = std::prev(next)->first;
    mapped_.erase(std::prev(next));
  }
  mapped_.emplace(begin, end - begin);
  used_ += size;
  return true;
}

void SimMemory::unmap(Address address, Bytes size) {
  const auto after = mapped_.upper_bound(address);
  FORESHARD_CHECK(after != mapped_.begin() && address + size <= std::prev(after)->first + std::prev(after)->second,
                  "memory is unmapped that is not mapped");
  const auto [begin, length] = *std::prev(after);
  mapped_.erase(std::prev(after));
  if (begin < address) mapped_.emplace(begin, address - begin);
  if (address + size < begin + length) mapped_.emplace(address + size, begin + length - address - size);
  used_ -= size;
}

}  // namespace foreshard::sim
