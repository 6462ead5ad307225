#include "core/run/stretch.hpp"

namespace foreshard {

void stretch(Run& run, double factor) {
  if (factor == 1) return;
  const auto scale = [factor](auto&... times) { ((times = times.scaled(factor)), ...); };
  for (HostOpRecord& op : run.host_ops) scale(op.start, op.end);
  for (DeviceOpRecord& op : run.device_ops) scale(op.issue, op.start, op.end);
  for (EventRecord& event : run.events) scale(event.time);
  for (AllocatorRecord& entry : run.allocator) scale(entry.time);
  for (StepRecord& step : run.steps) {
    scale(step.start, step.end);
    if (step.device_end) scale(*step.device_end);
  }
  for (PhaseRecord& phase : run.phases) scale(phase.start, phase.end);
  for (AnnotationRecord& annotation : run.annotations) scale(annotation.start, annotation.end);
  for (RankOpRecord& op : run.rank_ops) scale(op.op.issue, op.op.start, op.op.end);
}

}  // namespace foreshard
