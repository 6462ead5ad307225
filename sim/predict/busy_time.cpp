#include "sim/predict/busy_time.hpp"

#include <algorithm>
#include <utility>

#include "core/base/time_spans.hpp"
#include "core/run/steady_step.hpp"

namespace foreshard::sim {

BusyTime busy_time(const Run& run, Nanoseconds begin, Nanoseconds end) {
  TimeSpans compute, communication;
  for (const DeviceOpRecord& op : run.device_ops) {
    const Nanoseconds from = std::max(op.start, begin), to = std::min(op.end, end);
    if (to <= from) continue;
    if (op.kind == DeviceOpRecord::Kind::collective)
      communication.emplace_back(from, to);
    else if (op.stream == kComputeStream)
      compute.emplace_back(from, to);
  }
  compute = united(std::move(compute));
  communication = united(std::move(communication));
  BusyTime busy;
  busy.compute = length(compute);
  busy.communication = length(communication);
  busy.exposed_communication = busy.communication - overlap(compute, communication);
  return busy;
}

BusyTime timed_step_busy(const Run& run) {
  const StepRecord* step = timed_step(run);
  const StepRecord* before = step == nullptr ? nullptr : step_before(run, *step);
  if (before == nullptr || !step->device_end) return {};
  return busy_time(run, *before->device_end, *step->device_end);
}

}  // namespace foreshard::sim
