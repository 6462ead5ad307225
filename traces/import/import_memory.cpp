#include "traces/import/import_memory.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/run/stack_meaning.hpp"
#include "traces/capture/range_meaning.hpp"
#include "traces/import/recorded_steps.hpp"
#include "traces/import/snapshot_ranges.hpp"

namespace foreshard::traces {
namespace {

using PoolKey = std::pair<std::uint64_t, std::uint64_t>;

/// Stream ids by raw handle.
std::map<std::uint64_t, StreamId> add_streams(const Snapshot& snapshot, Run& run) {
  std::set<std::uint64_t> handles;
  for (const AllocatorEvent& event : snapshot.events) handles.insert(event.stream);
  for (const SnapshotSegment& segment : snapshot.segments) handles.insert(segment.stream);
  std::map<std::uint64_t, StreamId> ids;
  std::uint32_t next = 1;
  for (const StreamRecord& stream : run.streams) next = std::max(next, stream.id.value + 1);
  const bool has_compute = std::any_of(run.streams.begin(), run.streams.end(),
                                       [](const StreamRecord& stream) { return stream.id == kComputeStream; });
  std::uint32_t number = 0;
  for (const std::uint64_t handle : handles) {
    if (handle == 0) {
      ids[handle] = kComputeStream;
      if (!has_compute) run.streams.push_back({kComputeStream, "compute", 0, 0});
      continue;
    }
    ids[handle] = StreamId{next};
    run.streams.push_back({StreamId{next++}, fmt::format("allocations {}", ++number), handle, 0});
  }
  return ids;
}

/// Pools by the final snapshot's segments; memory of segments that were freed since counts as the default pool's.
class Pools {
 public:
  explicit Pools(const Snapshot& snapshot) {
    std::set<PoolKey> keys;
    for (const SnapshotSegment& segment : snapshot.segments) keys.insert(segment.pool_id);
    keys.erase({0, 0});
    for (const SnapshotSegment& segment : snapshot.segments) {
      const auto place = keys.find(segment.pool_id);
      if (place == keys.end()) continue;
      const PoolId id{static_cast<std::uint32_t>(std::distance(keys.begin(), place)) + 1};
      ranges_[segment.address] = {segment.address + segment.total_size, id};
    }
  }
  [[nodiscard]] PoolId of(Address address) const {
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return kDefaultPool;
    const auto& [end, id] = std::prev(after)->second;
    return address < end ? id : kDefaultPool;
  }

 private:
  std::map<Address, std::pair<Address, PoolId>> ranges_;
};

/// The innermost range open at each time, for times that never fall.
class OpenRanges {
 public:
  explicit OpenRanges(std::span<const Range> ranges) : ranges_(ranges) {}
  [[nodiscard]] const Range* innermost(Nanoseconds time) {
    while (next_ < ranges_.size() && ranges_[next_].start <= time) open_.push_back(next_++);
    std::erase_if(open_, [&](std::size_t i) { return ranges_[i].end <= time; });
    return open_.empty() ? nullptr : &ranges_[open_.back()];
  }

 private:
  std::span<const Range> ranges_;
  std::vector<std::size_t> open_;
  std::size_t next_ = 0;
};

/// What FSDP's own range says of a block that was made in it, where the step was not taken apart (no about file).
/// Which range allocates what: FSDPParamGroup.unshard(), foreach_all_gather_copy_out() and foreach_reduce() of 2.11;
/// foreach_reduce() makes its input on the compute stream and its output on its own.
AllocationNote note_of(const Range* range, StreamId stream, const UnitNames& units) {
  AllocationNote note;
  if (range == nullptr) return note;
  const RangeMeaning meaning = meaning_of(range->name);
  switch (meaning.kind) {
    case RangeKind::all_gather:
      note.category = MemoryCategory::gather_buffers;
      break;
    case RangeKind::copy_out:
      note.category = MemoryCategory::unsharded_parameters;
      break;
    case RangeKind::reduce:
      note.category = stream == kComputeStream ? MemoryCategory::reduce_buffers : MemoryCategory::sharded_gradients;
      break;
    default:
      return note;
  }
  note.unit = units.find(meaning.unit).value_or(UnitId{});
  return note;
}

/// The operators of stacks, as labels.
class StackOps {
 public:
  StackOps(const CallStacks& stacks, Labels& labels) : stacks_(stacks), labels_(labels), ops_(stacks.stacks().size()) {}
  LabelId of(StackId stack) {
    if (stack.value >= ops_.size()) return {};
    std::optional<LabelId>& op = ops_[stack.value];
    if (!op) {
      const std::string text = stacks_.op(stack);
      op = text.empty() ? LabelId{} : labels_.intern(text);
    }
    return *op;
  }

 private:
  StackMeanings stacks_;
  Labels& labels_;
  std::vector<std::optional<LabelId>> ops_;  // by stack, once asked for
};

/// The complete step that a time lies in; −1 before the first, else the last one begun.
std::int32_t step_at(const std::vector<StepRecord>& steps, Nanoseconds time) {
  std::int32_t index = -1;
  for (const StepRecord& step : steps)
    if (step.start <= time) index = step.index;
  return index;
}

void add_events(const MemoryInput& input, const std::vector<StepRecord>& steps,
                const std::map<std::uint64_t, StreamId>& streams, Run& run) {
  const std::int64_t origin = snapshot_origin_us(input.snapshot);
  const Pools pools(input.snapshot);
  OpenRanges ranges(input.ranges);
  StackOps ops(input.snapshot.stacks, run.labels);
  const UnitNames units(run.units);
  std::map<Address, BlockId> live;
  std::size_t allocs = 0;
  run.allocator.reserve(run.allocator.size() + input.snapshot.events.size());
  for (const AllocatorEvent& event : input.snapshot.events) {
    AllocatorRecord record;
    record.action = event.action;
    record.address = event.address;
    record.size = event.size;
    record.stream = streams.at(event.stream);
    record.time = Nanoseconds::from_us(event.time_us - origin);
    record.stack = event.stack;
    const Range* range = ranges.innermost(record.time);
    if (event.action == AllocatorAction::alloc) {
      BlockRecord block;
      block.address = event.address;
      block.requested = event.size;
      if (allocs < input.replay.block_size_of_alloc.size()) block.size = input.replay.block_size_of_alloc[allocs];
      block.stream = record.stream;
      block.pool = pools.of(event.address);
      block.step = step_at(steps, record.time);
      const AllocationNote note = allocs < input.notes.size() && input.notes[allocs]
                                      ? *input.notes[allocs]
                                      : note_of(range, record.stream, units);
      block.category = note.category;
      block.unit = note.unit;
      block.parameter = note.parameter;
      if (range != nullptr) block.label = run.labels.intern(range->name);
      block.stack = event.stack;
      block.op = ops.of(event.stack);
      if (!block.op.valid() && note.op.valid()) block.op = run.labels.intern(input.names.text(note.op));
      if (note.module.valid()) block.module = run.labels.intern(input.names.text(note.module));
      ++allocs;
      record.block = BlockId{static_cast<std::uint32_t>(run.blocks.size())};
      live[event.address] = record.block;
      run.blocks.push_back(block);
    } else if (event.action == AllocatorAction::free_requested || event.action == AllocatorAction::free_completed) {
      if (const auto found = live.find(event.address); found != live.end()) {
        record.block = found->second;
        if (event.action == AllocatorAction::free_completed) live.erase(found);
      }
    }
    run.allocator.push_back(record);
  }
}

/// Statistics of the replay at each step's end belong to the complete steps, in order.
void add_statistics(const ReplayReport& replay, std::vector<StepRecord>& steps) {
  std::int64_t retries_before = 0;
  for (std::size_t i = 0; i < steps.size() && i < replay.steps.size(); ++i) {
    const AllocatorStatistics& statistics = replay.steps[i];
    const auto bytes = [](std::int64_t value) { return static_cast<Bytes>(std::max<std::int64_t>(0, value)); };
    steps[i].peaks = {bytes(statistics.all.requested_bytes.peak), bytes(statistics.all.allocated_bytes.peak),
                      bytes(statistics.all.active_bytes.peak), bytes(statistics.all.reserved_bytes.peak)};
    steps[i].reserved_current = bytes(statistics.all.reserved_bytes.current);
    steps[i].num_alloc_retries = statistics.num_alloc_retries - retries_before;
    retries_before = statistics.num_alloc_retries;
  }
}

}  // namespace

void add_memory(const MemoryInput& input, Run& run) {
  const std::map<std::uint64_t, StreamId> streams = add_streams(input.snapshot, run);
  std::vector<StepRecord> steps = step_records(input.hooks, Recording::snapshot);
  add_statistics(input.replay, steps);
  add_events(input, steps, streams, run);
  run.steps.insert(run.steps.end(), steps.begin(), steps.end());
  const std::vector<PhaseRecord> phases = phase_records(input.hooks, Recording::snapshot);
  run.phases.insert(run.phases.end(), phases.begin(), phases.end());
  for (const Range& range : input.ranges)
    run.annotations.push_back({run.labels.intern(range.name), range.start, range.end});
  run.segments = input.snapshot.segments;
  run.stacks = input.snapshot.stacks;
}

}  // namespace foreshard::traces
