#include "sim/predict/process_memory_options.hpp"

#include <algorithm>

namespace foreshard::sim {
namespace {

/// The recorded process's addresses. `anew`: what it held before its recording is asked of memory too, and first.
void follow(const Workload& workload, bool anew, SimMemoryOptions& memory) {
  if (workload.segment_addresses.empty()) return;
  if (anew) {
    for (const SnapshotSegment& segment : workload.initial_segments) {
      if (segment.is_expandable) continue;
      memory.recorded_addresses.push_back(segment.address);
      memory.recorded_sizes.push_back(segment.total_size);
    }
  }
  const auto add = [](auto& list, const auto& more) { list.insert(list.end(), more.begin(), more.end()); };
  add(memory.recorded_addresses, workload.segment_addresses);
  add(memory.recorded_sizes, workload.segment_sizes);
}

/// Blocks that are older than the workload keep the places they were recorded at, of which memory does not know: what
/// it gives lies below them, as the driver's newer arenas do.
void keep_clear(const Workload& workload, SimMemoryOptions& memory) {
  constexpr Address kAligned = 512 * kMiB;  // SimMemoryOptions::first_arena
  constexpr Address kFirstArena = 32 * kMiB;
  bool moved = true;
  while (moved) {
    moved = false;
    for (const SnapshotSegment& segment : workload.initial_segments) {
      const bool above = segment.address >= memory.first_arena + kFirstArena;
      const bool below = segment.address + segment.total_size + memory.total <= memory.first_arena;
      if (segment.is_expandable || above || below || segment.address < kAligned + kFirstArena + memory.total) continue;
      memory.first_arena = (segment.address - kFirstArena) / kAligned * kAligned;
      moved = true;
    }
  }
}

}  // namespace

ProcessMemoryOptions process_memory_options(const Workload& workload, const Settings& settings,
                                            const MachineProfile& machine, std::optional<Bytes> limit,
                                            bool follow_recording) {
  ProcessMemoryOptions out{memory_options(machine, limit), follow_recording && settings == workload.settings};
  const bool anew = workload.lowering == Lowering::foreshard;
  if (out.follows_recording)
    follow(workload, anew, out.memory);
  else if (!anew)
    keep_clear(workload, out.memory);
  if (!anew)  // they are the allocator's, and memory is not asked for them
    for (const SnapshotSegment& segment : workload.initial_segments)
      if (!segment.is_expandable) out.memory.capacity -= std::min(out.memory.capacity, segment.total_size);
  return out;
}

}  // namespace foreshard::sim
