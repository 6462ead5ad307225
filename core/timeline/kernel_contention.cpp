#include "core/timeline/kernel_contention.hpp"

#include <algorithm>
#include <utility>

#include "core/base/time_spans.hpp"

namespace foreshard {
namespace {

/// When collectives run on streams other than the compute stream.
TimeSpans collectives_beside(const Run& run) {
  TimeSpans spans;
  for (const DeviceOpRecord& op : run.device_ops)
    if (op.stream != kComputeStream && op.kind == DeviceOpRecord::Kind::collective && op.end > op.start)
      spans.emplace_back(op.start, op.end);
  return united(std::move(spans));
}

/// Those of all steps serve as twins; by start.
std::vector<ComputeOp> compute_ops(const Run& run) {
  const TimeSpans collectives = collectives_beside(run);
  std::vector<ComputeOp> ops;
  for (std::size_t i = 0; i < run.device_ops.size(); ++i) {
    const DeviceOpRecord& op = run.device_ops[i];
    if (op.stream == kComputeStream && op.kind != DeviceOpRecord::Kind::collective)
      ops.push_back({i, op.start, op.end, covered(collectives, op.start, op.end)});
  }
  std::stable_sort(ops.begin(), ops.end(), [](const ComputeOp& a, const ComputeOp& b) { return a.start < b.start; });
  return ops;
}

}  // namespace

KernelContentions::KernelContentions(const Run& run)
    : run_(run), ops_(compute_ops(run)), isolated_(isolated_durations(run, ops_)) {
  for (const ComputeOp& op : ops_) order_.add(op.start, op.end);
}

KernelContention KernelContentions::in(const Places& places, Nanoseconds begin, Nanoseconds end) const {
  KernelContention out;
  Nanoseconds at = begin;
  const auto [first, last] = order_.reaching(begin, end);
  for (std::size_t i = first; i < last; ++i) {
    const ComputeOp& op = ops_[i];
    if (op.end <= at) continue;
    const Nanoseconds length = std::min(op.end, end) - std::max(op.start, at);
    at = std::min(op.end, end);
    if (op.ran_isolated() || length.count <= 0) continue;
    const Nanoseconds most = std::min(op.overlapped, length);
    if (!isolated_[i]) {
      out.unknown += most;
      continue;
    }
    const Nanoseconds slower = std::clamp(op.length() - *isolated_[i], Nanoseconds{0}, most);
    if (slower.count > 0) out.of_phase[places.phase(run_.device_ops[op.index])] += slower;
  }
  return out;
}

}  // namespace foreshard
