#include "traces/pytorch/trace_builder.hpp"

#include <fmt/format.h>

#include "core/kernel/kernel_name.hpp"
#include "traces/pytorch/trace_collective.hpp"

namespace foreshard::traces {

namespace {

using Severity = ImportStat::Severity;

}  // namespace

void TraceBuilder::add(const KinetoEvent& event) {
  if (event.role == EventRole::metadata) return;  // stream and thread names say nothing that ids do not
  if (event.role == EventRole::other) {
    ++trace_.events_by_category["other"];
    stats_.add("unknown_category", Severity::info,
               fmt::format("events have a category that this version does not know, first '{}'",
                           event.category.substr(0, 40)));
    return;
  }
  // `ignored` categories are a fixed list, so the map stays small whatever the file holds.
  if (!event.category.empty()) ++trace_.events_by_category[std::string(event.category)];
  if (event.role == EventRole::ignored) return;
  if (event.malformed_field)
    stats_.add("malformed_field", Severity::data_loss, "events have a known field of the wrong type; it is left out");
  if (!event.start_ns) {
    stats_.add("event_without_time", Severity::data_loss, "events have no usable start time and are left out");
    return;
  }
  switch (event.role) {
    case EventRole::runtime:
      return add_host_op(event, HostOpRecord::Kind::runtime);
    case EventRole::annotation:
      return add_host_op(event, HostOpRecord::Kind::annotation);
    case EventRole::cpu_op:
      if (event.name == "record_param_comms") add_communication(event);
      if (options_.keep_cpu_ops) add_host_op(event, HostOpRecord::Kind::cpu_op);
      return;
    case EventRole::sync:
    case EventRole::event_record:
      return add_sync(event);
    default:
      return add_device_op(event);
  }
}

std::int64_t TraceBuilder::end_of(const KinetoEvent& event) {
  if (!event.duration_ns) {
    stats_.add("missing_duration", Severity::data_loss, "events have no duration; they end where they start");
    return *event.start_ns;
  }
  if (*event.duration_ns < 0) {
    stats_.add("negative_duration", Severity::data_loss, "events have a negative duration; they end where they start");
    return *event.start_ns;
  }
  return *event.start_ns + *event.duration_ns;
}

void TraceBuilder::add_host_op(const KinetoEvent& event, HostOpRecord::Kind kind) {
  HostOp op;
  op.record.kind = kind;
  op.record.label = trace_.run.labels.intern(event.name);
  op.record.start = {*event.start_ns};
  op.record.end = {end_of(event)};
  if (kind == HostOpRecord::Kind::runtime) op.record.correlation = event.correlation;
  op.thread = event.tid.value_or(-1);
  op.process = event.pid.value_or(-1);
  host_ops_.push_back(op);
}

CommunicatorId TraceBuilder::communicator(const CollectiveArgs& args) {
  if (args.group.empty()) return {};
  if (auto it = communicator_ids_.find(args.group); it != communicator_ids_.end()) return it->second;
  const CommunicatorId id{static_cast<std::uint32_t>(trace_.communicators.size())};
  communicator_ids_.emplace(args.group, id);
  trace_.communicators.push_back(
      {std::string(args.group), std::string(args.description), std::string(args.ranks), args.group_size});
  return id;
}

void TraceBuilder::add_device_op(const KinetoEvent& event) {
  if (!event.pid || (!event.stream && !event.tid)) {
    stats_.add("device_op_without_stream", Severity::data_loss, "GPU events name no device or stream and are left out");
    return;
  }
  DeviceOp op;
  DeviceOpRecord& record = op.record;
  record.label = trace_.run.labels.intern(event.name);
  record.start = {*event.start_ns};
  record.end = {end_of(event)};
  record.issue = record.start;
  record.bytes = event.bytes;
  record.correlation = event.correlation;
  record.grid = event.grid;
  record.block = event.block;
  if (event.role == EventRole::memcpy) record.kind = DeviceOpRecord::Kind::copy;
  if (event.role == EventRole::memset) {
    record.kind = DeviceOpRecord::Kind::memset;
    record.kernel_class = KernelClass::memset;
  }
  const auto kind = collective_kind(event.collective.name, event.name);
  if (event.role == EventRole::kernel && kind) {
    record.kind = DeviceOpRecord::Kind::collective;
    record.collective = *kind;
    record.transport = transport_of_kernel(event.name);
    record.bytes = collective_bytes(*kind, event.collective);
    record.communicator = communicator(event.collective);
    if (*kind == CollectiveKind::all_to_all) op.splits = split_sizes(event.collective);
    collectives_.insert({*kind, record.communicator, collective_dtype(event.collective), record.bytes});
    // What a batch of sends and receives moves, its calls say (link_messages).
    const bool is_batch = *kind == CollectiveKind::send_recv && event.collective.name.empty();
    if (record.bytes == 0 && !is_batch)
      stats_.add("collective_without_size", Severity::data_loss, "collectives' kernels do not say how much they move");
  } else if (event.role == EventRole::kernel && is_nccl_kernel(event.name)) {
    stats_.add("other_collective", Severity::info, "NCCL kernels are of no known collective; they are kept as kernels");
  }
  op.device = *event.pid;
  op.stream = event.stream ? *event.stream : *event.tid;
  op.external_id = event.external_id.value_or(-1);
  op.is_peer_copy = event.role == EventRole::memcpy && event.name.starts_with("Memcpy PtoP");
  device_ops_.push_back(op);
}

void TraceBuilder::add_communication(const KinetoEvent& event) {
  const auto kind = collective_kind(event.collective.name, {});
  if (!kind || !event.external_id) return;
  const Communication said{*kind, collective_bytes(*kind, event.collective), communicator(event.collective)};
  communications_.emplace(*event.external_id, said);
  if (*kind == CollectiveKind::send_recv)
    messages_.push_back({event.tid.value_or(-1), *event.start_ns, *event.external_id, event.collective.name == "send",
                         said.bytes, said.communicator});
  collectives_.insert({said.kind, said.communicator, collective_dtype(event.collective), said.bytes});
}

void TraceBuilder::add_sync(const KinetoEvent& event) {
  Sync sync;
  sync.start = *event.start_ns;
  sync.correlation = event.correlation;
  sync.stream = event.stream.value_or(-1);
  sync.is_record = event.role == EventRole::event_record;
  sync.wait_on_stream = event.wait_on_stream.value_or(-1);
  sync.record = event.wait_on_record;
  // Kineto, libkineto/src/CuptiActivity.cpp, syncTypeString: "Event Sync", "Stream Wait Event", "Stream Sync",
  // "Context Sync". The last two wait for no event; their runtime calls are kept as host ops.
  sync.on_host = event.sync_kind == "Event Sync";
  if (!sync.is_record && !sync.on_host && event.sync_kind != "Stream Wait Event") return;
  syncs_.push_back(sync);
}

}  // namespace foreshard::traces
