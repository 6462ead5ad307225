#include "core/explain_time/run_facts.hpp"

#include <algorithm>
#include <iterator>

namespace foreshard::explain_time_detail {

RunFacts::RunFacts(const Run& of_run, SlowedKernels slowed)
    : run(of_run), waits(run), delays(run), issues(run), spans(device_spans(run)) {
  if (slowed == SlowedKernels::looked_for) contentions.emplace(run);
  TimeSpans busy;
  for (std::size_t i = 0; i < run.device_ops.size(); ++i) {
    const DeviceOpRecord& op = run.device_ops[i];
    if (op.kind != DeviceOpRecord::Kind::collective) {
      if (op.stream == kComputeStream) compute_.push_back(i);
      continue;
    }
    if (op.end > op.start) busy.emplace_back(op.start, op.end);
    if (op.stream == kComputeStream) in_order_.push_back(i);
  }
  collectives = united(std::move(busy));
  std::stable_sort(compute_.begin(), compute_.end(),
                   [this](std::size_t a, std::size_t b) { return run.device_ops[a].start < run.device_ops[b].start; });
  for (const std::size_t i : compute_) compute_order_.add(run.device_ops[i].start, run.device_ops[i].end);
  std::sort(in_order_.begin(), in_order_.end(), [this](std::size_t a, std::size_t b) {
    const Nanoseconds end_a = run.device_ops[a].end, end_b = run.device_ops[b].end;
    return end_a != end_b ? end_a < end_b : a > b;
  });
  for (const StepRecord& step : run.steps)
    if (!of.contains(step.recording)) of.try_emplace(step.recording, run, step.recording);
}

std::vector<std::size_t> RunFacts::compute_ops(Nanoseconds begin, Nanoseconds end) const {
  std::vector<std::size_t> ops;
  const auto [first, last] = compute_order_.reaching(begin, end);
  for (std::size_t i = first; i < last; ++i)
    if (const DeviceOpRecord& op = run.device_ops[compute_[i]]; op.end > std::max(op.start, begin))
      ops.push_back(compute_[i]);
  return ops;
}

std::size_t RunFacts::last_collective(Nanoseconds from, Nanoseconds to) const {
  const auto after = std::upper_bound(in_order_.begin(), in_order_.end(), to,
                                      [this](Nanoseconds time, std::size_t i) { return time < run.device_ops[i].end; });
  if (after == in_order_.begin()) return kNoDeviceOp;
  const std::size_t last = *std::prev(after);
  return run.device_ops[last].end > from ? last : kNoDeviceOp;
}

}  // namespace foreshard::explain_time_detail
