// The second half of TraceBuilder: what needs all events.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "traces/pytorch/trace_builder.hpp"

namespace foreshard::traces {

namespace {

using Severity = ImportStat::Severity;

}  // namespace

// A process trains on one GPU; events of others come from peer copies or from a second model.
void TraceBuilder::choose_device() {
  std::map<std::int64_t, std::uint64_t> ops_of_device;
  for (const DeviceOp& op : device_ops_) ++ops_of_device[op.device];
  std::int64_t chosen = ops_of_device.begin()->first;
  for (const auto& [device, count] : ops_of_device)
    if (count > ops_of_device[chosen]) chosen = device;
  if (options_.device) chosen = *options_.device;
  const auto others = std::remove_if(device_ops_.begin(), device_ops_.end(),
                                     [chosen](const DeviceOp& op) { return op.device != chosen; });
  stats_.add("device_op_of_other_device", Severity::info, "GPU events belong to other devices and are left out",
             static_cast<std::uint64_t>(device_ops_.end() - others));
  device_ops_.erase(others, device_ops_.end());
  trace_.device = static_cast<std::uint32_t>(chosen);
}

// A copy-engine collective is a batch of peer copies issued inside c10d's record_param_comms; both carry the same
// external id. PyTorch puts the collective's fields on kernels only (libkineto output_json.cpp), so they are put
// back here.
void TraceBuilder::link_copies() {
  for (DeviceOp& op : device_ops_) {
    if (!op.is_peer_copy) continue;
    const auto it = communications_.find(op.external_id);
    if (it == communications_.end()) continue;
    op.record.kind = DeviceOpRecord::Kind::collective;
    op.record.transport = Transport::copy_engine;
    op.record.collective = it->second.kind;
    op.record.communicator = it->second.communicator;
    if (it->second.bytes > 0) op.record.bytes = it->second.bytes;
  }
}

// torch.distributed.batch_isend_irecv: record_param_comms of every send and receive, and then, outside of them, one
// kernel (ProcessGroupNCCL::endCoalescing), which says nothing. It does what its thread asked for since the last one.
void TraceBuilder::link_messages() {
  std::set<std::int64_t> alone;  // sends and receives with a kernel of their own
  for (const DeviceOp& op : device_ops_)
    if (op.record.collective == CollectiveKind::send_recv && op.record.bytes > 0) alone.insert(op.external_id);
  std::erase_if(messages_, [&alone](const Message& message) { return alone.contains(message.external_id); });
  std::sort(messages_.begin(), messages_.end());
  std::map<std::uint64_t, std::size_t> launches;  // by correlation, of the host's calls
  for (const Call& call : calls()) launches.emplace(call);
  struct Batch {
    std::int64_t thread = 0;
    std::int64_t start = 0;
    std::size_t op = 0;
  };
  std::vector<Batch> batches;
  std::uint64_t without = 0;
  for (std::size_t i = 0; i < device_ops_.size(); ++i) {
    const DeviceOpRecord& op = device_ops_[i].record;
    if (op.kind != DeviceOpRecord::Kind::collective || op.collective != CollectiveKind::send_recv || op.bytes > 0)
      continue;
    const auto call = launches.find(op.correlation);
    if (call == launches.end())
      ++without;
    else
      batches.push_back({host_ops_[call->second].thread, host_ops_[call->second].record.start.count, i});
  }
  std::sort(batches.begin(), batches.end(), [](const Batch& a, const Batch& b) {
    return std::tuple(a.thread, a.start, a.op) < std::tuple(b.thread, b.start, b.op);
  });
  auto next = messages_.begin();
  for (const Batch& batch : batches) {
    while (next != messages_.end() && next->thread < batch.thread) ++next;
    DeviceOpRecord& op = device_ops_[batch.op].record;
    Bytes sent = 0;
    Bytes received = 0;
    for (; next != messages_.end() && next->thread == batch.thread && next->start <= batch.start; ++next) {
      Bytes& sum = next->sends ? sent : received;
      sum += std::min(next->bytes, std::numeric_limits<Bytes>::max() - sum);
      op.communicator = next->communicator;
    }
    op.bytes = std::max(sent, received);
    without += op.bytes == 0 ? 1 : 0;
  }
  stats_.add("collective_without_size", Severity::data_loss, "collectives' kernels do not say how much they move",
             without);
}

void TraceBuilder::size_splits(std::uint32_t rank) {
  for (DeviceOp& op : device_ops_) {
    if (!op.splits || !op.record.communicator.valid()) continue;
    const std::vector<std::uint64_t> members = listed_numbers(trace_.communicators[op.record.communicator.value].ranks);
    const auto own = std::find(members.begin(), members.end(), rank);
    if (own == members.end() || members.size() != op.splits->sent.size()) continue;
    const Moved moved = moved_by(*op.splits, static_cast<std::size_t>(own - members.begin()));
    op.record.collective = moved.kind;
    op.record.bytes = moved.bytes;
  }
}

std::vector<TraceBuilder::Call> TraceBuilder::calls() const {
  std::vector<Call> calls;
  for (std::size_t i = 0; i < host_ops_.size(); ++i)
    if (host_ops_[i].record.correlation != 0) calls.emplace_back(host_ops_[i].record.correlation, i);
  // Of several calls with one id the one that started first issued the work.
  std::sort(calls.begin(), calls.end(), [this](const Call& a, const Call& b) {
    return std::tuple(a.first, host_ops_[a.second].record.start, a.second) <
           std::tuple(b.first, host_ops_[b.second].record.start, b.second);
  });
  return calls;
}

void TraceBuilder::link_calls() {
  const std::vector<Call> sorted = calls();
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].first == sorted[i - 1].first)
      stats_.add("duplicate_call", Severity::info, "runtime calls share a correlation id with another call");
  for (DeviceOp& op : device_ops_) {
    const auto it = std::lower_bound(sorted.begin(), sorted.end(), op.record.correlation,
                                     [](const Call& call, std::uint64_t id) { return call.first < id; });
    if (op.record.correlation == 0 || it == sorted.end() || it->first != op.record.correlation) {
      stats_.add("device_op_without_call", Severity::info,
                 "GPU events have no runtime call; they count as issued when they start");
      continue;
    }
    op.record.issue = host_ops_[it->second].record.start;
    if (op.record.issue > op.record.start) {
      stats_.add("device_op_before_call", Severity::info,
                 "GPU events start before their runtime call: the profiler's two clocks disagree");
      op.record.issue = op.record.start;
    }
  }
}

// Needs the final order of device_ops_.
void TraceBuilder::drop_duplicates() {
  const auto key = [](const DeviceOp& op) {
    return std::tuple(op.record.correlation, op.record.start, op.record.end, op.stream, op.record.label);
  };
  const auto same = [&key](const DeviceOp& a, const DeviceOp& b) {
    return a.record.correlation != 0 && key(a) == key(b);
  };
  const auto last = std::unique(device_ops_.begin(), device_ops_.end(), same);
  stats_.add("duplicate_device_op", Severity::info, "GPU events occur twice and are kept once",
             static_cast<std::uint64_t>(device_ops_.end() - last));
  device_ops_.erase(last, device_ops_.end());
}

// On Linux the main thread's id is the process id. Needs the final order of host_ops_.
void TraceBuilder::number_threads() {
  std::map<std::int64_t, std::uint32_t> numbers;
  const auto give = [this, &numbers](std::int64_t thread) {
    if (numbers.emplace(thread, static_cast<std::uint32_t>(numbers.size())).second) trace_.threads.push_back(thread);
  };
  for (const HostOp& op : host_ops_)
    if (op.thread == op.process) give(op.thread);
  for (const HostOp& op : host_ops_)
    if (op.record.kind == HostOpRecord::Kind::annotation) give(op.thread);
  for (const HostOp& op : host_ops_) give(op.thread);
  for (HostOp& op : host_ops_) op.record.thread = numbers[op.thread];
}

// Needs the final order of device_ops_.
void TraceBuilder::number_streams() {
  std::map<std::int64_t, std::uint64_t> kernels;
  for (const DeviceOp& op : device_ops_) kernels[op.stream] += op.record.kind == DeviceOpRecord::Kind::kernel ? 1 : 0;
  std::int64_t compute = device_ops_.front().stream;
  for (const auto& [stream, count] : kernels)
    if (count > kernels[compute]) compute = stream;
  const auto give = [this](std::int64_t stream) {
    const StreamId id{static_cast<std::uint32_t>(stream_ids_.size())};
    if (!stream_ids_.emplace(stream, id).second) return;
    trace_.run.streams.push_back({id, fmt::format("stream {}", stream), static_cast<std::uint64_t>(stream), 0});
  };
  give(compute);
  for (const DeviceOp& op : device_ops_) give(op.stream);
}

// The n-th recording of any event gets EventId n, in host order; a wait names the recording by the correlation of
// its cudaEventRecord.
void TraceBuilder::emit_events(std::int64_t origin) {
  const std::vector<Call> sorted = calls();
  const auto call_start = [&](std::uint64_t correlation) -> std::optional<std::int64_t> {
    const auto it = std::lower_bound(sorted.begin(), sorted.end(), correlation,
                                     [](const Call& call, std::uint64_t id) { return call.first < id; });
    if (it == sorted.end() || it->first != correlation) return std::nullopt;
    return host_ops_[it->second].record.start.count;
  };
  struct Found {
    std::int64_t time;
    Sync sync;
  };
  std::vector<Found> found;
  std::set<std::uint64_t> recorded;
  for (const Sync& sync : syncs_)
    if (sync.is_record && sync.correlation != 0 && recorded.insert(sync.correlation).second)
      found.push_back({call_start(sync.correlation).value_or(sync.start), sync});
  for (const Sync& sync : syncs_) {
    if (sync.is_record) continue;
    if (sync.record == 0) {
      stats_.add("wait_for_unknown_event", Severity::data_loss,
                 "waits name no recording of an event (recorded before the profiler began) and are left out");
      continue;
    }
    // A recording that only its waits tell of: where, they say; when, its call does.
    if (recorded.insert(sync.record).second)
      found.push_back({call_start(sync.record).value_or(sync.start),
                       {.is_record = true, .correlation = sync.record, .stream = sync.wait_on_stream}});
    found.push_back({call_start(sync.correlation).value_or(sync.start), sync});
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.time < b.time; });
  std::map<std::uint64_t, EventId> ids;
  for (const Found& item : found)
    if (item.sync.is_record) ids.emplace(item.sync.correlation, EventId{static_cast<std::uint32_t>(ids.size())});
  for (const Found& item : found) {
    const auto stream = stream_ids_.find(item.sync.stream);
    const auto kind = item.sync.is_record ? EventRecord::Kind::record
                      : item.sync.on_host ? EventRecord::Kind::host_wait
                                          : EventRecord::Kind::wait;
    trace_.run.events.push_back({kind, ids.at(item.sync.is_record ? item.sync.correlation : item.sync.record),
                                 stream == stream_ids_.end() || item.sync.on_host ? StreamId{} : stream->second,
                                 Nanoseconds{item.time - origin}});
  }
}

void TraceBuilder::emit(std::int64_t origin) {
  const Nanoseconds shift{origin};
  trace_.run.host_ops.reserve(host_ops_.size());
  for (const HostOp& op : host_ops_) {
    HostOpRecord& record = trace_.run.host_ops.emplace_back(op.record);
    record.start -= shift;
    record.end -= shift;
  }
  trace_.run.device_ops.reserve(device_ops_.size());
  for (const DeviceOp& op : device_ops_) {
    DeviceOpRecord& record = trace_.run.device_ops.emplace_back(op.record);
    record.issue -= shift;
    record.start -= shift;
    record.end -= shift;
    record.stream = stream_ids_.at(op.stream);
  }
}

void TraceBuilder::finish(std::optional<std::uint32_t> rank) {
  choose_device();
  trace_.collectives.assign(collectives_.begin(), collectives_.end());
  if (device_ops_.empty()) return;
  link_copies();
  link_messages();
  if (rank) size_splits(*rank);
  link_calls();
  // Ranges that start together: the longer one is the outer one.
  std::stable_sort(host_ops_.begin(), host_ops_.end(), [](const HostOp& a, const HostOp& b) {
    return std::tuple(a.record.start, b.record.end) < std::tuple(b.record.start, a.record.end);
  });
  std::stable_sort(device_ops_.begin(), device_ops_.end(), [](const DeviceOp& a, const DeviceOp& b) {
    return std::tuple(a.record.issue, a.record.start, a.record.correlation) <
           std::tuple(b.record.issue, b.record.start, b.record.correlation);
  });
  drop_duplicates();
  number_threads();
  number_streams();
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  if (!host_ops_.empty()) origin = host_ops_.front().record.start.count;
  for (const DeviceOp& op : device_ops_) origin = std::min(origin, op.record.start.count);
  trace_.origin_ns += origin;
  emit_events(origin);
  emit(origin);
  trace_.run.import_stats = stats_.take();
}

}  // namespace foreshard::traces
