#include "sim/calibrate/capture_sample.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/time_spans.hpp"

namespace foreshard::sim {
namespace {

/// From each collective's issue to its end, on any stream.
TimeSpans collective_spans(const Run& run) {
  TimeSpans spans;
  for (const DeviceOpRecord& op : run.device_ops)
    if (op.kind == DeviceOpRecord::Kind::collective) spans.emplace_back(op.issue, op.end);
  return united(std::move(spans));
}

/// Their last instant included.
bool inside(const TimeSpans& spans, Nanoseconds time) {
  const auto after = std::upper_bound(spans.begin(), spans.end(), time,
                                      [](Nanoseconds t, const TimeSpan& span) { return t < span.first; });
  return after != spans.begin() && time <= std::prev(after)->second;
}

}  // namespace

CaptureSample capture_sample(const Run& run) {
  using Kind = DeviceOpRecord::Kind;
  std::map<std::uint32_t, std::vector<const DeviceOpRecord*>> streams;
  for (const DeviceOpRecord& op : run.device_ops) streams[op.stream.value].push_back(&op);
  const TimeSpans collectives = collective_spans(run);
  std::vector<std::int64_t> gaps;
  for (auto& [stream, ops] : streams) {
    std::stable_sort(ops.begin(), ops.end(), [](const auto* a, const auto* b) { return a->start < b->start; });
    for (std::size_t i = 1; i < ops.size(); ++i) {
      const DeviceOpRecord& first = *ops[i - 1];
      const DeviceOpRecord& second = *ops[i];
      const bool kernels = first.kind == Kind::kernel && second.kind == Kind::kernel;
      const bool queued = second.issue < first.start && second.start >= first.end;
      if (kernels && queued && !inside(collectives, first.end) && !inside(collectives, second.start))
        gaps.push_back((second.start - first.end).count);
    }
  }
  CaptureSample out;
  out.name = run.info.name;
  out.kernel_pairs = gaps.size();
  if (gaps.empty()) return out;
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  out.kernel_gap_us = static_cast<double>(*middle) / 1e3;
  return out;
}

}  // namespace foreshard::sim
