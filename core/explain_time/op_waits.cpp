#include "core/explain_time/op_waits.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/run/op_dependencies.hpp"

namespace foreshard::explain_time_detail {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);
/// Launches take up to 10 us in the reference recordings, a communicator's turn-around 7 us; more is waiting.
constexpr Nanoseconds kLatency{15'000};
/// From what a collective waits for to its begin, barriers of copy-engine collectives included: up to 50 us.
constexpr Nanoseconds kBarrier{60'000};

std::vector<std::size_t> sorted_by(const Run& run, Nanoseconds DeviceOpRecord::*time) {
  std::vector<std::size_t> order(run.device_ops.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return run.device_ops[a].*time < run.device_ops[b].*time; });
  return order;
}

std::vector<std::vector<std::size_t>> awaited(const Run& run) {
  if (run.events.empty()) return {};
  std::vector<std::size_t> ops(run.device_ops.size()), events(run.events.size());
  std::iota(ops.begin(), ops.end(), std::size_t{0});
  std::iota(events.begin(), events.end(), std::size_t{0});
  std::vector<std::vector<std::size_t>> out(run.device_ops.size());
  for (OpDependencies& d : op_dependencies(run, std::move(ops), std::move(events))) out[d.op] = std::move(d.events);
  return out;
}

}  // namespace

OpWaits::OpWaits(const Run& run)
    : run_(run),
      all_events_(!run.events.empty() && run.info.kind != RunKind::imported),
      before_on_stream_(run.device_ops.size(), kNone),
      before_on_communicator_(run.device_ops.size(), kNone),
      events_(awaited(run)),
      by_end_(sorted_by(run, &DeviceOpRecord::end)) {
  std::map<StreamId, std::size_t> on_stream;
  std::map<CommunicatorId, std::size_t> on_communicator;
  for (const std::size_t index : sorted_by(run, &DeviceOpRecord::start)) {
    const DeviceOpRecord& op = run.device_ops[index];
    const auto [stream, first] = on_stream.try_emplace(op.stream, index);
    if (!first) before_on_stream_[index] = stream->second;
    stream->second = index;
    if (op.kind != DeviceOpRecord::Kind::collective || !op.communicator.valid()) continue;
    const auto [communicator, alone] = on_communicator.try_emplace(op.communicator, index);
    if (!alone) before_on_communicator_[index] = communicator->second;
    communicator->second = index;
  }
}

/// Of the ops of other streams that ended in (after, op.start] the one that ended last.
std::size_t OpWaits::last_end(const DeviceOpRecord& op, Nanoseconds after) const {
  auto it = std::upper_bound(by_end_.begin(), by_end_.end(), op.start,
                             [this](Nanoseconds time, std::size_t i) { return time < run_.device_ops[i].end; });
  while (it != by_end_.begin()) {
    const DeviceOpRecord& other = run_.device_ops[*--it];
    if (other.end <= after) break;
    if (other.stream != op.stream && other.end > other.start && other.start < op.start) return *it;
  }
  return kNone;
}

Wait OpWaits::of(std::size_t index) const {
  const DeviceOpRecord& op = run_.device_ops[index];
  // An op whose call was not recorded counts as issued in time.
  Wait wait{Wait::For::issue, op.issue < op.start ? op.issue : Nanoseconds{INT64_MIN}, kNone, kNone, false};
  const auto offer = [&](Wait::For what, std::size_t source) {
    if (source == kNone) return;
    const Nanoseconds end = std::min(run_.device_ops[source].end, op.start);
    if (end > wait.at) wait = {what, end, source, kNone, false};
  };
  offer(Wait::For::stream, before_on_stream_[index]);
  offer(Wait::For::communicator, before_on_communicator_[index]);
  if (!events_.empty())
    for (const std::size_t source : events_[index]) offer(Wait::For::event, source);
  const Nanoseconds latency = !all_events_ && op.stream == kComputeStream ? kKernelGap : kLatency;
  if (wait.at.count != INT64_MIN && op.start - wait.at <= latency) return wait;
  const std::size_t source = last_end(op, wait.at);
  const bool collective = op.kind == DeviceOpRecord::Kind::collective;
  const bool known = wait.at.count != INT64_MIN;
  if (!known && source == kNone) return wait;
  const Nanoseconds last = source == kNone ? wait.at : std::max(wait.at, run_.device_ops[source].end);
  if (!all_events_ && collective && op.start - last > kBarrier) {
    wait.for_peers = known;
    return wait;
  }
  if (source == kNone) return wait;
  if (!all_events_) return {Wait::For::event, run_.device_ops[source].end, source, kNone, false};
  wait.queued_behind = source;
  return wait;
}

}  // namespace foreshard::explain_time_detail
