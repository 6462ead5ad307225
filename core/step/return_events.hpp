// When the blocks that wait for events come back to the allocator: as the device says, or as a recording did.
//
// Who: core/step's runner puts it between the caching allocator and the device. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "core/device/device.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

/// Events of freed blocks. The allocator records them while a block is freed and asks for them when memory is
/// wanted (caching allocator 5.2), so the runner says when either begins.
class ReturnEvents final : public StreamEvents {
 public:
  /// `repeat`: answer from `recorded` as far as it goes. Both references must outlive this.
  ReturnEvents(const RecordedReturns& recorded, bool repeat, Device& device)
      : recorded_(recorded), repeat_(repeat), device_(device) {}

  /// What comes now is what the recording began with.
  void begin_recording() { frees_ = allocations_ = 0; }
  void next_allocation() { ++allocations_; }
  void next_free() { ++frees_; }

  EventId record_event(StreamId stream) override {
    const EventId event = device_.record_event(stream);
    if (repeat_ && frees_ <= recorded_.frees) returns_[event] = return_of(frees_ - 1);
    return event;
  }
  bool event_complete(EventId event) override {
    const auto known = returns_.find(event);
    if (known == returns_.end()) return device_.event_complete(event);
    if (allocations_ <= known->second) return false;
    returns_.erase(known);
    return true;
  }
  void synchronize_event(EventId event) override {
    returns_.erase(event);
    device_.synchronize_event(event);
  }

 private:
  /// The number of the first allocation before which the block of free number `free` is back in its pool; 0: at once.
  [[nodiscard]] std::uint64_t return_of(std::uint64_t free) const {
    const auto late = std::lower_bound(recorded_.late.begin(), recorded_.late.end(), free,
                                       [](const RecordedReturns::Late& l, std::uint64_t f) { return l.free < f; });
    return late != recorded_.late.end() && late->free == free ? late->allocation : 0;
  }

  const RecordedReturns& recorded_;
  bool repeat_;
  Device& device_;
  std::uint64_t allocations_ = 0;  // begun so far
  std::uint64_t frees_ = 0;
  std::map<EventId, std::uint64_t> returns_;  // number of the allocation that finds the event complete
};

}  // namespace foreshard
