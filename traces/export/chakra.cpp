#include "traces/export/chakra.hpp"

#include <algorithm>

#include "core/run/plan_results.hpp"
#include "core/run/run_names.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/export/dependencies.hpp"
#include "traces/export/protobuf_writer.hpp"
#include "traces/export/tracks.hpp"

namespace foreshard::traces {
namespace {

// mlcommons/chakra, schema/protobuf/et_def.proto (package ChakraProtoMsg, schema 0.0.4).
namespace metadata {
constexpr std::uint32_t kVersion = 1, kAttribute = 2;
}
namespace node {
constexpr std::uint32_t kId = 1, kName = 2, kType = 3, kDataDependency = 5, kStart = 6, kDuration = 7, kAttribute = 10;
constexpr std::uint64_t kCompute = 4, kSend = 5, kCollective = 7;
}  // namespace node
namespace attribute {
constexpr std::uint32_t kName = 1, kInt64 = 9, kUint64 = 13, kBool = 27, kString = 29;
}

/// CollectiveCommType.
std::uint64_t collective_type(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return 0;
    case CollectiveKind::all_gather:
      return 2;
    case CollectiveKind::reduce_scatter:
      return 7;
    case CollectiveKind::reduce:
      return 1;
    case CollectiveKind::broadcast:
      return 5;
    case CollectiveKind::all_to_all:
      return 6;
    case CollectiveKind::send_recv:
      break;  // a node of another type
  }
  return 0;
}

ProtobufWriter named(std::string_view name) {
  ProtobufWriter out;
  out.bytes(attribute::kName, name);
  return out;
}

// The types are those that the C++ feeder reads each attribute as; another type would be read as 0
// (mlcommons/chakra, src/feeder).
void integer(ProtobufWriter& to, std::uint32_t field, std::string_view name, std::int64_t value) {
  ProtobufWriter out = named(name);
  out.varint(attribute::kInt64, static_cast<std::uint64_t>(value));
  to.message(field, out);
}
void count(ProtobufWriter& to, std::uint32_t field, std::string_view name, std::uint64_t value) {
  ProtobufWriter out = named(name);
  out.varint(attribute::kUint64, value);
  to.message(field, out);
}
void flag(ProtobufWriter& to, std::uint32_t field, std::string_view name, bool value) {
  ProtobufWriter out = named(name);
  out.varint(attribute::kBool, value ? 1 : 0);
  to.message(field, out);
}
void text(ProtobufWriter& to, std::uint32_t field, std::string_view name, std::string_view value) {
  ProtobufWriter out = named(name);
  out.bytes(attribute::kString, value);
  to.message(field, out);
}

void put(ByteSink& sink, const ProtobufWriter& message) {
  ProtobufWriter length;
  length.raw_varint(message.text().size());
  sink.write(length.text());
  sink.write(message.text());
}

std::uint64_t whole_us(Nanoseconds time) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, time.count) + 500) / 1000;
}

/// Ids count from 1: 0 reads as no id in proto3.
std::uint64_t id_of(std::size_t op) {
  return op + 1;
}

ProtobufWriter node_of(const Run& run, const ExportSelection& selection, const OpDependencies& dependencies) {
  const DeviceOpRecord& op = run.device_ops[dependencies.op];
  const bool collective = op.kind == DeviceOpRecord::Kind::collective;
  ProtobufWriter out;
  out.varint(node::kId, id_of(dependencies.op));
  out.bytes(node::kName, op_name(run, op));
  // Whom a rank sends to and receives from is not in a run; what is sent stands for both.
  const bool sends = collective && op.collective == CollectiveKind::send_recv;
  out.varint(node::kType, sends ? node::kSend : collective ? node::kCollective : node::kCompute);
  std::vector<std::size_t> waits = dependencies.events;
  if (dependencies.before != OpDependencies::kNoOp) waits.push_back(dependencies.before);
  std::sort(waits.begin(), waits.end());
  ProtobufWriter ids;  // a repeated number of proto3 is packed
  for (const std::size_t wait : waits) ids.raw_varint(id_of(wait));
  if (!waits.empty()) out.message(node::kDataDependency, ids);
  out.varint(node::kStart, whole_us(op.start + selection.lanes_shift));
  out.varint(node::kDuration, std::max<std::uint64_t>(1, whole_us(op.end - op.start)));
  flag(out, node::kAttribute, "is_cpu_op", false);
  integer(out, node::kAttribute, "stream", static_cast<std::int64_t>(stream_number(run, op.stream)));
  if (const std::string unit = unit_name(run, op.unit); !unit.empty()) text(out, node::kAttribute, "unit", unit);
  if (collective) {
    if (!sends) integer(out, node::kAttribute, "comm_type", static_cast<std::int64_t>(collective_type(op.collective)));
    integer(out, node::kAttribute, "comm_size", static_cast<std::int64_t>(op.bytes));
    if (op.communicator.valid()) text(out, node::kAttribute, "pg_name", std::to_string(op.communicator.value));
    text(out, node::kAttribute, "transport", name(op.transport));
  } else if (op.bytes != 0) {
    count(out, node::kAttribute, "tensor_size", op.bytes);
  }
  return out;
}

}  // namespace

Result<void> write_chakra(const Run& run, const ExportSelection& selection, ByteSink& sink) {
  if (!selection.has_lanes || run.device_ops.empty())
    return tl::unexpected(no_device_ops(run, "the run holds no device ops", run.info.name));
  ProtobufWriter header;
  header.bytes(metadata::kVersion, "0.0.4");
  text(header, metadata::kAttribute, "schema", "foreshard-chakra.0.0.4");
  count(header, metadata::kAttribute, "ranks", std::uint64_t{run.settings.gpus} * run.settings.nodes);
  put(sink, header);
  for (const OpDependencies& op : op_dependencies(run, selection)) put(sink, node_of(run, selection, op));
  return {};
}

}  // namespace foreshard::traces
