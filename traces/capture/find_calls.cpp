#include <algorithm>
#include <string>
#include <string_view>

#include "traces/capture/step_calls.hpp"

namespace foreshard::traces {
namespace {

bool is_synchronize(std::string_view name) {
  return name.starts_with("cudaStreamSynchronize") || name.starts_with("cudaEventSynchronize") ||
         name.starts_with("cudaDeviceSynchronize") || name.starts_with("cuStreamSynchronize") ||
         name.starts_with("cuEventSynchronize") || name.starts_with("cuCtxSynchronize");
}

}  // namespace

TraceCalls find_calls(const Run& run) {
  TraceCalls out;
  std::vector<std::uint32_t>& order = out.op_order;
  for (std::uint32_t i = 0; i < run.device_ops.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const DeviceOpRecord& x = run.device_ops[a];
    const DeviceOpRecord& y = run.device_ops[b];
    return x.correlation != y.correlation ? x.correlation < y.correlation : x.start < y.start;
  });
  const auto by_correlation = [&](std::uint32_t op, std::uint64_t id) { return run.device_ops[op].correlation < id; };

  std::vector<bool> taken(run.device_ops.size());  // of several calls with one id the first issued the work
  std::vector<std::uint32_t> launching;            // threads
  std::vector<std::uint32_t> thread_of;
  std::uint64_t joined = 0;
  for (const HostOpRecord& host : run.host_ops) {
    if (host.kind != HostOpRecord::Kind::runtime) continue;
    TraceCall call{.start = host.start, .end = host.end};
    call.synchronize = is_synchronize(run.labels.text(host.label));
    if (host.correlation != 0) {
      const auto first = std::lower_bound(order.begin(), order.end(), host.correlation, by_correlation);
      auto last = first;
      while (last != order.end() && run.device_ops[*last].correlation == host.correlation) ++last;
      call.first_op = static_cast<std::uint32_t>(first - order.begin());
      if (first != last && !taken[*first]) {
        call.op_count = static_cast<std::uint32_t>(last - first);
        taken[*first] = true;
      }
    }
    // Some profilers record a synchronisation on the device side as well; it is no work.
    if (call.synchronize) call.op_count = 0;
    if (call.op_count == 0 && !call.synchronize) continue;
    if (call.op_count > 0 && std::find(launching.begin(), launching.end(), host.thread) == launching.end())
      launching.push_back(host.thread);
    joined += call.op_count;
    out.calls.push_back(call);
    thread_of.push_back(host.thread);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < out.calls.size(); ++i) {
    const bool launches = std::find(launching.begin(), launching.end(), thread_of[i]) != launching.end();
    if (launches) out.calls[kept++] = out.calls[i];
  }
  out.calls.resize(kept);
  std::stable_sort(out.calls.begin(), out.calls.end(),
                   [](const TraceCall& a, const TraceCall& b) { return a.start < b.start; });
  for (auto it = out.calls.rbegin(); it != out.calls.rend() && it->synchronize; ++it) it->ends_trace = true;
  out.ops_without_call = run.device_ops.size() - std::min<std::uint64_t>(joined, run.device_ops.size());
  return out;
}

}  // namespace foreshard::traces
