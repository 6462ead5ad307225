// How each record of core/run lies in its table's columns: one `columns()` per record, for both directions.
//
// Private to traces/store. `Io` is RowWriter (row_writer.hpp), RowReader (row_reader.hpp) or the test that
// compares the names here with schema.hpp. Column order and names are the schema's.
//
// An Io offers: value(name, field) for text, integers, flags, reals, enumerations with words, Nanoseconds,
// optional times and ids (an invalid id is NULL); span(start, end) for the pair `ts`, `dur`;
// unless(name, field, default) for a field that is NULL while it has its default value.
#pragma once

#include <cstdint>
#include <string>

#include "core/explain/explanation.hpp"
#include "core/run/run.hpp"
#include "core/run/run_names.hpp"
#include "traces/store/rank_fold.hpp"

namespace foreshard::traces {

// Rows of the tables that are no record of their own in Run.
struct SettingRow {
  std::string key;
  std::string value;
};
struct TextRow {
  std::string text;
};
struct UnitRow {
  std::string name;
};
struct ParameterRow {
  UnitId unit;
  std::string name;
  std::string shape;
  DType dtype = DType::float32;
};
struct FrameRow {
  StackFrame frame;
};
struct StackRow {
  CallStack stack;
  FrameId user_frame;  ///< derived (core/run/stack_meaning.hpp)
};
struct SegmentBlockRow {
  std::uint32_t segment = 0;
  SnapshotBlock block;
};
struct MeasuredRow {
  std::string series;
  double value = 0;
};
struct WorkloadRow {
  std::string json;
};
struct MemoryPartsRow {
  MemoryParts parts;
};
struct RunRow {
  RunInfo info;
  bool measured = false;
  bool complete = false;
};

/// What an Io works on: constant records when it writes, others when it reads.
template <class Io, class Record>
using Of = typename Io::template Record<Record>;

template <class Io>
void columns(Io& io, Of<Io, SettingRow>& row) {
  io.value("key", row.key);
  io.value("value", row.value);
}
template <class Io>
void columns(Io& io, Of<Io, TextRow>& row) {
  io.value("text", row.text);
}
template <class Io>
void columns(Io& io, Of<Io, InputFile>& row) {
  io.value("role", row.role);
  io.value("path", row.path);
  io.value("bytes", row.bytes);
  io.value("digest", row.digest);
}
template <class Io>
void columns(Io& io, Of<Io, UnitRow>& row) {
  io.value("name", row.name);
}
template <class Io>
void columns(Io& io, Of<Io, ParameterRow>& row) {
  io.value("unit", row.unit);
  io.value("name", row.name);
  io.value("shape", row.shape);
  io.value("dtype", row.dtype);
}
template <class Io>
void columns(Io& io, Of<Io, StreamRecord>& row) {
  io.value("stream", row.id);
  io.value("name", row.name);
  io.value("handle", row.handle);
  io.value("priority", row.priority);
}
template <class Io>
void columns(Io& io, Of<Io, HostOpRecord>& row) {
  io.value("kind", row.kind);
  io.value("thread", row.thread);
  io.value("label", row.label);
  io.span(row.start, row.end);
  io.unless("correlation", row.correlation, std::uint64_t{0});
}
template <class Io>
void columns(Io& io, Of<Io, DeviceOpRecord>& row) {
  const DeviceOpRecord none;
  io.value("kind", row.kind);
  io.value("stream", row.stream);
  io.value("label", row.label);
  io.value("issue", row.issue);
  io.span(row.start, row.end);
  io.value("bytes", row.bytes);
  io.unless("correlation", row.correlation, none.correlation);
  io.value("unit", row.unit);
  // A kernel has a class and a collective its kind, default or not; elsewhere the default means nothing.
  io.unless("kernel_class", row.kernel_class, none.kernel_class, row.kind == DeviceOpRecord::Kind::kernel);
  const bool collective = row.kind == DeviceOpRecord::Kind::collective;
  io.unless("collective", row.collective, none.collective, collective);
  io.unless("transport", row.transport, none.transport, collective);
  io.value("communicator", row.communicator);
  io.unless("grid_x", row.grid[0], 0u);
  io.unless("grid_y", row.grid[1], 0u);
  io.unless("grid_z", row.grid[2], 0u);
  io.unless("block_x", row.block[0], 0u);
  io.unless("block_y", row.block[1], 0u);
  io.unless("block_z", row.block[2], 0u);
}
template <class Io>
void columns(Io& io, Of<Io, RankRecord>& row) {
  io.value("rank", row.rank);
  io.value("clock_offset", row.clock_offset);
  io.value("clock_error", row.clock_error);
}
template <class Io>
void columns(Io& io, Of<Io, RankFold>& row) {
  io.value("rank", row.rank);
  io.value("alike", row.alike);
  io.value("communicators", row.communicators);
}
template <class Io>
void columns(Io& io, Of<Io, RankOpRecord>& row) {
  io.value("rank", row.rank);
  io.value("step", row.step);
  io.value("phase", row.phase);
  io.unless("sequence", row.sequence, -1);
  columns(io, row.op);
}
template <class Io>
void columns(Io& io, Of<Io, EventRecord>& row) {
  io.value("kind", row.kind);
  io.value("event", row.event);
  io.value("stream", row.stream);
  io.value("ts", row.time);
}
template <class Io>
void columns(Io& io, Of<Io, BlockRecord>& row) {
  io.value("address", row.address);
  io.value("requested", row.requested);
  io.unless("size", row.size, Bytes{0});
  io.value("stream", row.stream);
  io.value("pool", row.pool);
  io.value("category", row.category);
  io.value("unit", row.unit);
  io.value("parameter", row.parameter);
  io.value("label", row.label);
  io.value("step", row.step);
  io.value("op", row.op);
  io.value("module", row.module);
  io.value("stack", row.stack);
}
template <class Io>
void columns(Io& io, Of<Io, AllocatorRecord>& row) {
  io.value("action", row.action);
  io.value("address", row.address);
  io.value("size", row.size);
  io.value("stream", row.stream);
  io.value("ts", row.time);
  io.value("block", row.block);
  io.value("stack", row.stack);
}
template <class Io>
void columns(Io& io, Of<Io, FrameRow>& row) {
  io.value("file", row.frame.file);
  io.value("line", row.frame.line);
  io.value("function", row.frame.function);
}
template <class Io>
void columns(Io& io, Of<Io, StackRow>& row) {
  io.value("frame", row.stack.frame);
  io.value("caller", row.stack.caller);
  io.value("user_frame", row.user_frame);
}
template <class Io>
void columns(Io& io, Of<Io, SnapshotSegment>& row) {
  io.value("device", row.device);
  io.value("address", row.address);
  io.value("total_size", row.total_size);
  io.value("allocated_size", row.allocated_size);
  io.value("active_size", row.active_size);
  io.value("requested_size", row.requested_size);
  io.value("stream", row.stream);
  io.value("small_pool", row.small_pool);
  io.value("pool_id_0", row.pool_id.first);
  io.value("pool_id_1", row.pool_id.second);
  io.value("is_expandable", row.is_expandable);
}
template <class Io>
void columns(Io& io, Of<Io, SegmentBlockRow>& row) {
  io.value("segment", row.segment);
  io.value("address", row.block.address);
  io.value("size", row.block.size);
  io.value("requested_size", row.block.requested_size);
  io.value("state", row.block.state);
  io.value("stack", row.block.stack);
}
template <class Io>
void columns(Io& io, Of<Io, StepRecord>& row) {
  io.value("recording", row.recording);
  io.value("step", row.index);
  io.span(row.start, row.end);
  io.value("device_end", row.device_end);
  io.value("peak_requested", row.peaks.requested);
  io.value("peak_allocated", row.peaks.allocated);
  io.value("peak_active", row.peaks.active);
  io.value("peak_reserved", row.peaks.reserved);
  io.value("reserved_current", row.reserved_current);
  io.value("num_alloc_retries", row.num_alloc_retries);
}
template <class Io>
void columns(Io& io, Of<Io, PhaseRecord>& row) {
  io.value("step", row.step);
  io.value("recording", row.recording);
  io.value("name", row.name);
  io.span(row.start, row.end);
}
template <class Io>
void columns(Io& io, Of<Io, AnnotationRecord>& row) {
  io.value("label", row.label);
  io.span(row.start, row.end);
}
template <class Io>
void columns(Io& io, Of<Io, ImportStat>& row) {
  io.value("name", row.name);
  io.value("severity", row.severity);
  io.value("count", row.count);
  io.value("text", row.text);
}
template <class Io>
void columns(Io& io, Of<Io, MeasuredRow>& row) {
  io.value("series", row.series);
  io.value("value", row.value);
}
template <class Io>
void columns(Io& io, Of<Io, WorkloadRow>& row) {
  io.value("json", row.json);
}
template <class Io>
void columns(Io& io, Of<Io, MemoryPartsRow>& row) {
  io.value("requested", row.parts.requested);
  io.value("rounding", row.parts.rounding);
  io.value("pending_free", row.parts.pending_free);
  io.value("hard_fragmentation", row.parts.hard);
  io.value("soft_fragmentation", row.parts.soft);
  io.value("stream_fragmentation", row.parts.stream);
  io.value("private_pools", row.parts.private_pool);
}
template <class Io>
void columns(Io& io, Of<Io, RunRow>& row) {
  io.value("kind", row.info.kind);
  io.value("name", row.info.name);
  io.value("foreshard_version", row.info.foreshard_version);
  io.value("torch", row.info.torch);
  io.value("nccl", row.info.nccl);
  io.value("gpu", row.info.gpu);
  io.value("sm_count", row.info.sm_count);
  io.value("machine", row.info.machine);
  io.value("valid", row.info.valid);
  io.value("measured", row.measured);
  io.value("complete", row.complete);
}

}  // namespace foreshard::traces
