#include "core/compare/peak_memory.hpp"

#include <algorithm>

namespace foreshard {
namespace {

/// kMinBlockSize (CUDACachingAllocator.h): the rounding of a request whose block's size is not known.
constexpr Bytes kMinBlockSize = 512;

/// By how much an entry changes allocated bytes (CUDACachingAllocator.cpp of PyTorch 2.11, malloc() and free()).
std::int64_t allocated_change(const Run& run, const AllocatorRecord& record) {
  const bool alloc = record.action == AllocatorAction::alloc;
  if (!alloc && record.action != AllocatorAction::free_requested) return 0;
  Bytes size = round_up(record.size, kMinBlockSize);
  if (record.block.value < run.blocks.size()) {
    const BlockRecord& block = run.blocks[record.block.value];
    size = block.size > 0 ? block.size : round_up(block.requested, kMinBlockSize);
  }
  return alloc ? static_cast<std::int64_t>(size) : -static_cast<std::int64_t>(size);
}

/// Allocated bytes before the first entry: the final state less all changes; 0 without a final state.
std::int64_t allocated_before(const Run& run) {
  if (run.segments.empty()) return 0;
  std::int64_t bytes = 0;
  for (const SnapshotSegment& segment : run.segments)
    for (const SnapshotBlock& block : segment.blocks)
      if (block.state == BlockState::live) bytes += static_cast<std::int64_t>(block.size);
  for (const AllocatorRecord& record : run.allocator) bytes -= allocated_change(run, record);
  return bytes;
}

std::string unit_name(const Run& run, UnitId unit) {
  if (unit.value >= run.units.size()) return {};
  const std::string& name = run.units[unit.value].name;
  return name.empty() ? "root" : name;
}

}  // namespace

PeakMemory peak_memory(const Run& run, const StepRecord& record, PeakStep& step) {
  std::int64_t allocated = allocated_before(run);
  std::int64_t most = INT64_MIN;
  std::size_t peak = 0;  // entries up to the peak
  for (std::size_t i = 0; i < run.allocator.size() && run.allocator[i].time < record.end; ++i) {
    allocated += allocated_change(run, run.allocator[i]);
    const bool before = run.allocator[i].time < record.start;
    const bool last_before = before && (i + 1 == run.allocator.size() || run.allocator[i + 1].time >= record.start);
    if ((!before || last_before) && allocated > most) {
      most = allocated;
      peak = i + 1;
      step.peak_time = run.allocator[i].time;
    }
  }
  PeakMemory out;
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < peak; ++i) {
    const AllocatorRecord& entry = run.allocator[i];
    const std::int64_t change = allocated_change(run, entry);
    if (change == 0 || entry.block.value >= run.blocks.size()) continue;
    const BlockRecord& block = run.blocks[entry.block.value];
    out.categories[block.category] += change;
    out.units[unit_name(run, block.unit)] += change;
    seen += change;
  }
  if (peak > 0) out.before_recording = most - seen;
  return out;
}

}  // namespace foreshard
