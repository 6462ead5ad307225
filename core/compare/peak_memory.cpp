#include "core/compare/peak_memory.hpp"

#include "core/compare/memory_totals.hpp"
#include "core/run/block_units.hpp"

namespace foreshard {
namespace {

std::int64_t allocated_change(const Run& run, const AllocatorRecord& record) {
  if (record.action == AllocatorAction::alloc) return block_bytes(run, record);
  return record.action == AllocatorAction::free_requested ? -block_bytes(run, record) : 0;
}

std::string unit_name(const Run& run, UnitId unit) {
  if (unit.value >= run.units.size()) return {};
  const std::string& name = run.units[unit.value].name;
  return name.empty() ? "root" : name;
}

}  // namespace

PeakMemory peak_memory(const Run& run, const StepRecord& record, PeakStep& step) {
  std::int64_t allocated = totals_before(run).allocated;
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
  const std::vector<UnitId> units = block_units(run);
  PeakMemory out;
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < peak; ++i) {
    const AllocatorRecord& entry = run.allocator[i];
    const std::int64_t change = allocated_change(run, entry);
    if (change == 0 || entry.block.value >= run.blocks.size()) continue;
    const BlockRecord& block = run.blocks[entry.block.value];
    out.categories[block.category] += change;
    out.units[unit_name(run, units[entry.block.value])] += change;
    seen += change;
  }
  if (peak > 0) out.before_recording = most - seen;
  return out;
}

}  // namespace foreshard
