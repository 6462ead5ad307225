#include "sim/predict/busy_time.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/run/steady_step.hpp"

namespace foreshard::sim {
namespace {

using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;

Spans united(Spans spans) {
  std::sort(spans.begin(), spans.end());
  Spans out;
  for (const auto& span : spans) {
    if (!out.empty() && span.first <= out.back().second)
      out.back().second = std::max(out.back().second, span.second);
    else
      out.push_back(span);
  }
  return out;
}

std::int64_t length(const Spans& spans) {
  std::int64_t total = 0;
  for (const auto& [begin, end] : spans) total += end - begin;
  return total;
}

std::int64_t overlap(const Spans& a, const Spans& b) {
  std::int64_t total = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    total += std::max<std::int64_t>(0, std::min(a[i].second, b[j].second) - std::max(a[i].first, b[j].first));
    (a[i].second < b[j].second ? i : j) += 1;
  }
  return total;
}

}  // namespace

BusyTime busy_time(const Run& run, Nanoseconds begin, Nanoseconds end) {
  Spans compute;
  Spans communication;
  for (const DeviceOpRecord& op : run.device_ops) {
    const std::int64_t from = std::max(op.start.count, begin.count);
    const std::int64_t to = std::min(op.end.count, end.count);
    if (to <= from) continue;
    if (op.kind == DeviceOpRecord::Kind::collective)
      communication.emplace_back(from, to);
    else if (op.stream == kComputeStream)
      compute.emplace_back(from, to);
  }
  compute = united(std::move(compute));
  communication = united(std::move(communication));
  BusyTime busy;
  busy.compute = {length(compute)};
  busy.communication = {length(communication)};
  busy.exposed_communication = {length(communication) - overlap(compute, communication)};
  return busy;
}

BusyTime timed_step_busy(const Run& run) {
  const StepRecord* step = timed_step(run);
  const StepRecord* before = step == nullptr ? nullptr : step_before(run, *step);
  if (before == nullptr || !step->device_end) return {};
  return busy_time(run, *before->device_end, *step->device_end);
}

}  // namespace foreshard::sim
