// What the allocator's tests stand on: a counted device memory with ascending addresses, events that
// complete when a test says so, and a list of the trace entries.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/allocator/caching_allocator.hpp"
#include "core/base/quantity.hpp"

namespace foreshard::test {

/// Where the next segment lies.
enum class Addresses : std::uint8_t { ascending, descending };

/// Addresses ascend from 2^40 in steps of the size, or descend; freed ranges are not used again.
class CountedMemory : public DeviceMemory {
 public:
  explicit CountedMemory(Bytes total = 80 * kGiB, Addresses addresses = Addresses::ascending)
      : total_(total), addresses_(addresses) {}

  std::optional<Address> allocate(MemoryKind kind, Bytes size) override {
    if (used_ + size > total_) return std::nullopt;
    kinds.push_back(kind);
    used_ += size;
    const Address address = next(size);
    sizes_[address] = size;
    return address;
  }
  void free(Address address) override {
    used_ -= sizes_.at(address);
    sizes_.erase(address);
  }
  std::optional<Address> reserve(Bytes size) override {
    ++ranges;
    return next(size);
  }
  void release(Address) override { --ranges; }
  bool map(Address, Bytes size) override {
    if (used_ + size > total_) return false;
    used_ += size;
    return true;
  }
  void unmap(Address, Bytes size) override { used_ -= size; }
  MemoryInfo info() const override { return {total_ - used_, total_}; }

  std::vector<MemoryKind> kinds;  ///< of each allocate() that succeeded
  int ranges = 0;                 ///< reserved now

 private:
  Address next(Bytes size) {
    if (addresses_ == Addresses::descending) return next_ -= size;
    next_ += size;
    return next_ - size;
  }

  Bytes total_;
  Addresses addresses_;
  Bytes used_ = 0;
  Address next_ = Address{1} << 40;
  std::map<Address, Bytes> sizes_;
};

/// Events complete in the order of their recording: those below `completed`.
class ManualEvents : public StreamEvents {
 public:
  EventId record_event(StreamId stream) override {
    streams.push_back(stream);
    return EventId{recorded_++};
  }
  bool event_complete(EventId event) override { return event.value < completed; }
  void synchronize_event(EventId event) override { completed = std::max(completed, event.value + 1); }

  std::uint32_t completed = 0;
  std::vector<StreamId> streams;  ///< of each recorded event

 private:
  std::uint32_t recorded_ = 0;
};

struct EventList : AllocatorObserver {
  void on_event(const AllocatorEvent& event) override { events.push_back(event); }
  /// "alloc 512, …" of the entries since the last call.
  std::string take();

  std::vector<AllocatorEvent> events;
};

inline std::string EventList::take() {
  std::string text;
  for (const AllocatorEvent& event : events) {
    if (!text.empty()) text += ", ";
    text +=
        std::string(kAllocatorActionNames[static_cast<std::size_t>(event.action)]) + " " + std::to_string(event.size);
  }
  events.clear();
  return text;
}

/// An allocator with its seams. `config` is PYTORCH_ALLOC_CONF's text.
struct Bench {
  explicit Bench(const std::string& config = {}, Bytes total = 80 * kGiB, const std::string& pytorch = "2.11",
                 Addresses addresses = Addresses::ascending)
      : memory(total, addresses), allocator(parse_alloc_conf(config, pytorch).value(), memory, events, &list) {}

  BlockHandle malloc(Bytes size, StreamId stream = kComputeStream, PoolId pool = kDefaultPool) {
    return allocator.malloc(size, stream, pool).value();
  }
  const StatisticGroup& all() const { return allocator.statistics().all; }

  CountedMemory memory;
  ManualEvents events;
  EventList list;
  CachingAllocator allocator;
};

}  // namespace foreshard::test
