#include "core/step/process_memory.hpp"

namespace foreshard {

Workload recorded_in(Workload workload, const Settings& settings, const ProcessMemory& memory) {
  if (settings != workload.settings) return workload;
  const auto move = [&](Program& program) {
    for (Op& op : program.ops) {
      if (!op.before_recording) continue;
      const auto block = memory.older_blocks.find(op.size.bytes);
      if (block != memory.older_blocks.end()) op.size.bytes = block->second;
    }
  };
  move(workload.setup);
  for (Program& step : workload.steps) move(step);
  workload.initial_segments = memory.initial_segments;
  workload.segment_addresses = memory.segments.addresses;
  workload.segment_sizes = memory.segments.sizes;
  return workload;
}

}  // namespace foreshard
