// Runs small enough to check by hand.
#pragma once

#include <map>
#include <string>

#include "core/run/run.hpp"

namespace foreshard::test {

inline constexpr Address kBase = Address{1} << 40;
inline constexpr Bytes M = kMiB;

/// Writes a run event by event; each event takes one microsecond.
class SmallRun {
 public:
  SmallRun() {
    run.info.kind = RunKind::planned;
    run.info.name = "small";
    run.units = {{"", {}}, {"layers.0", {}}, {"layers.1", {}}};
    run.streams = {{StreamId{0}, "compute", 0, 0}, {StreamId{1}, "copy-in", 0, 0}, {StreamId{2}, "all-gather", 0, 0}};
  }
  SmallRun& segment(Bytes at, Bytes size, std::uint32_t stream = 0) {
    return add(AllocatorAction::segment_alloc, at, size, stream, {});
  }
  SmallRun& segment_free(Bytes at, Bytes size, std::uint32_t stream = 0) {
    return add(AllocatorAction::segment_free, at, size, stream, {});
  }
  SmallRun& alloc(Bytes at, Bytes requested, Bytes size, MemoryCategory category = MemoryCategory::activations,
                  std::uint32_t unit = 0, std::uint32_t stream = 0) {
    const BlockId id{static_cast<std::uint32_t>(run.blocks.size())};
    BlockRecord block;
    block.address = kBase + at;
    block.requested = requested;
    block.size = size;
    block.stream = StreamId{stream};
    block.category = category;
    block.unit = UnitId{unit};
    block.step = static_cast<std::int32_t>(run.steps.size()) - 1;
    run.blocks.push_back(block);
    block_at_[at] = id;
    return add(AllocatorAction::alloc, at, requested, stream, id);
  }
  /// free_requested, and free_completed at once unless it `waits`.
  SmallRun& free(Bytes at, bool waits = false) {
    const BlockRecord& block = run.blocks[block_at_.at(at).value];
    add(AllocatorAction::free_requested, at, block.requested, block.stream.value, block_at_.at(at));
    return waits ? *this : back(at);
  }
  SmallRun& back(Bytes at) {
    const BlockRecord& block = run.blocks[block_at_.at(at).value];
    return add(AllocatorAction::free_completed, at, block.requested, block.stream.value, block_at_.at(at));
  }
  SmallRun& oom(Bytes size, Bytes device_free, std::uint32_t stream = 0) {
    AllocatorRecord record{AllocatorAction::oom, device_free, size, StreamId{stream}, now_, {}};
    run.allocator.push_back(record);
    now_ += Nanoseconds::from_us(1);
    return *this;
  }
  /// A step begins now; the one before ends.
  SmallRun& step() {
    StepRecord record;
    record.index = static_cast<std::int32_t>(run.steps.size());
    record.start = now_;
    record.end = now_ + Nanoseconds::from_us(1000);
    if (!run.steps.empty()) run.steps.back().end = now_;
    run.steps.push_back(record);
    return *this;
  }
  [[nodiscard]] Nanoseconds now() const { return now_; }

  Run run;

 private:
  SmallRun& add(AllocatorAction action, Bytes at, Bytes size, std::uint32_t stream, BlockId block) {
    run.allocator.push_back({action, kBase + at, size, StreamId{stream}, now_, block});
    now_ += Nanoseconds::from_us(1);
    return *this;
  }

  std::map<Bytes, BlockId> block_at_;
  Nanoseconds now_;
};

}  // namespace foreshard::test
