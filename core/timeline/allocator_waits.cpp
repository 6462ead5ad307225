#include "core/timeline/allocator_waits.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace foreshard {
namespace {

/// Calls that get or give back device memory; not those of pinned host memory (cudaMallocHost, cudaFreeHost), which
/// another allocator makes, nor those ordered by a stream (cudaMallocAsync), which do not wait.
bool moves_memory(std::string_view call) {
  constexpr std::array<std::string_view, 9> kCalls{
      "cudaMalloc",   "cudaFree",       "cuMemCreate",         "cuMemMap",        "cuMemUnmap",
      "cuMemRelease", "cuMemSetAccess", "cuMemAddressReserve", "cuMemAddressFree"};
  return std::find(kCalls.begin(), kCalls.end(), call) != kCalls.end();
}

bool waits(std::string_view call) {
  return call == "cudaEventSynchronize" || call == "cudaDeviceSynchronize" || call == "cudaStreamSynchronize";
}

TimeSpans by_calls(const Run& run) {
  TimeSpans spans;
  std::map<std::uint32_t, TimeSpans> waiting;  // per thread: synchronisation with nothing since
  for (const HostOpRecord& op : run.host_ops) {
    if (op.kind != HostOpRecord::Kind::runtime) continue;
    TimeSpans& before = waiting[op.thread];
    const std::string& call = run.labels.text(op.label);
    if (waits(call)) {
      before.emplace_back(op.start, op.end);
      continue;
    }
    if (moves_memory(call)) {
      spans.insert(spans.end(), before.begin(), before.end());
      spans.emplace_back(op.start, op.end);
    }
    before.clear();
  }
  return spans;
}

/// A plan has the calls that take time (sim/machine/timed_memory.hpp), each with its wait for the GPU.
bool is_simulated_call(const Run& run, const HostOpRecord& op) {
  return op.kind == HostOpRecord::Kind::work && moves_memory(run.labels.text(op.label));
}

TimeSpans by_simulated_calls(const Run& run) {
  TimeSpans spans;
  for (const HostOpRecord& op : run.host_ops)
    if (is_simulated_call(run, op)) spans.emplace_back(op.start, op.end);
  return spans;
}

TimeSpans by_freed_segments(const Run& run) {
  std::vector<Nanoseconds> acts;  // the host's other acts
  for (const DeviceOpRecord& op : run.device_ops) acts.push_back(op.issue);
  for (const EventRecord& event : run.events) acts.push_back(event.time);
  for (const AllocatorRecord& record : run.allocator) acts.push_back(record.time);
  for (const HostOpRecord& op : run.host_ops) {
    acts.push_back(op.start);
    acts.push_back(op.end);
  }
  std::sort(acts.begin(), acts.end());
  TimeSpans spans;
  for (const AllocatorRecord& record : run.allocator) {
    if (record.action != AllocatorAction::segment_free) continue;
    const auto at = std::lower_bound(acts.begin(), acts.end(), record.time);
    if (at != acts.begin()) spans.emplace_back(*std::prev(at), record.time);
  }
  return spans;
}

}  // namespace

bool has_simulated_calls(const Run& run) {
  return std::any_of(run.host_ops.begin(), run.host_ops.end(),
                     [&](const HostOpRecord& op) { return is_simulated_call(run, op); });
}

TimeSpans allocator_waits(const Run& run, Recording recording) {
  const bool has_calls = std::any_of(run.host_ops.begin(), run.host_ops.end(),
                                     [](const HostOpRecord& op) { return op.kind == HostOpRecord::Kind::runtime; });
  if (has_calls) return united(by_calls(run));
  if (recording != Recording::run) return {};
  return united(has_simulated_calls(run) ? by_simulated_calls(run) : by_freed_segments(run));
}

}  // namespace foreshard
