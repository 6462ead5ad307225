// The two seams of a replay, answered from the recording. Internal to core/allocator's replay.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/allocator/address_intervals.hpp"
#include "core/allocator/replay_plan.hpp"
#include "core/device/device_memory.hpp"
#include "core/device/stream_events.hpp"

namespace foreshard::allocator_detail {

/// What the allocator produced since the operation began, beside what the recording has for it.
struct OperationView final : AllocatorObserver {
  std::span<const ReplayEntry> expected;
  std::span<const ReplayEntry> later;  ///< the trace from the operation's first entry on
  std::vector<AllocatorEvent> produced;

  void on_event(const AllocatorEvent& event) override { produced.push_back(event); }
  /// The recorded entry at the place that the allocator has come to; null past the operation's end.
  [[nodiscard]] const ReplayEntry* next() const {
    return produced.size() < expected.size() ? &expected[produced.size()] : nullptr;
  }
  [[nodiscard]] bool next_is(AllocatorAction action) const { return next() && next()->action == action; }
  /// The recorded operation goes on with a release or fails here: the driver refused.
  [[nodiscard]] bool refused() const {
    return next_is(AllocatorAction::segment_free) || next_is(AllocatorAction::segment_unmap) ||
           next_is(AllocatorAction::free_completed) || next_is(AllocatorAction::oom);
  }
};

/// The driver: recorded addresses, and refusal where the recording shows one. Once the replay has left the
/// recording it goes on with invented addresses above every real one, so that the state stays sound.
class RecordedMemory final : public DeviceMemory {
 public:
  RecordedMemory(const OperationView& view, Bytes total) : view_(&view), total_(total) {}

  /// Marks addresses as taken: those of before the recording.
  void occupy(Address begin, Address end) { taken_.add(begin, end); }
  void occupy_range(Address base) { bases_.add(base, base + 1); }

  std::optional<Address> allocate(MemoryKind /*kind*/, Bytes size) override {
    if (view_->refused()) return std::nullopt;
    Address address = view_->next_is(AllocatorAction::segment_alloc) ? view_->next()->address : 0;
    if (address == 0 || taken_.overlaps(address, address + size)) address = invent(size);
    taken_.add(address, address + size);
    sizes_[address] = size;
    return address;
  }
  void free(Address address) override {
    const auto it = sizes_.find(address);
    if (it == sizes_.end()) return;  // adopted: its place stays marked, which costs an invented address at worst
    taken_.remove(address, address + it->second);
    sizes_.erase(it);
  }
  std::optional<Address> reserve(Bytes size) override {
    for (const ReplayEntry& entry : view_->later) {
      if (entry.action != AllocatorAction::segment_map) continue;
      if (taken_.overlaps(entry.address, entry.address + entry.size) ||
          bases_.overlaps(entry.address, entry.address + 1))
        continue;
      occupy_range(entry.address);
      return entry.address;
    }
    return invent(size);
  }
  void release(Address address) override { bases_.remove(address, address + 1); }
  bool map(Address address, Bytes size) override {
    if (view_->refused() || taken_.overlaps(address, address + size)) return false;
    taken_.add(address, address + size);
    return true;
  }
  void unmap(Address address, Bytes size) override { taken_.remove(address, address + size); }
  MemoryInfo info() const override {
    return {view_->next_is(AllocatorAction::oom) ? view_->next()->address : 0, total_};
  }

 private:
  Address invent(Bytes size) {
    const Address address = invented_;
    invented_ += round_up(size, kGiB);
    return address;
  }

  const OperationView* view_;
  Bytes total_;
  Address invented_ = Address{1} << 61;  // kMaxRequest bounds the recorded ones
  AddressIntervals taken_;
  AddressIntervals bases_;
  std::unordered_map<Address, Bytes> sizes_;  // lookup only
};

/// Each block that was used on other streams gets a stream of its own, numbered in the order of the
/// recorded completions, so that the allocator's queues give them back in that order.
class RecordedEvents final : public StreamEvents {
 public:
  RecordedEvents(std::size_t streams, std::size_t entries) : first_(streams), entries_(entries) {}

  /// The stream of a block whose free_completed is entry `completion`; of one that never completes, any
  /// number that is unique (`request`: the entry of its free).
  [[nodiscard]] StreamId stream_of(std::size_t completion, std::size_t request) const {
    const std::size_t order = completion == kNever ? entries_ + request : completion;
    return StreamId{static_cast<std::uint32_t>(first_ + order)};
  }
  /// Completions of entries before `entry` have happened.
  void completed_before(std::size_t entry) { completed_ = entry; }

  EventId record_event(StreamId stream) override { return EventId{stream.value}; }
  bool event_complete(EventId event) override { return event.value - first_ < completed_; }
  void synchronize_event(EventId /*event*/) override {}

 private:
  std::size_t first_;
  std::size_t entries_;
  std::size_t completed_ = 0;
};

}  // namespace foreshard::allocator_detail
