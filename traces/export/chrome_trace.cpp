#include "traces/export/chrome_trace.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/compare/memory_totals.hpp"
#include "core/run/run_names.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/export/chrome_event.hpp"
#include "traces/export/tracks.hpp"

namespace foreshard::traces {
namespace {

constexpr std::int64_t kDevice = 0;
/// Of the process and its main thread. Kineto takes pids 0 to 15 for GPUs.
constexpr std::int64_t kHost = 10000;
// Kineto's rows of one stream's synchronisation events, and its sort order of GPUs (libkineto/src/output_json.cpp).
constexpr std::int64_t kSyncRow = 1'000'000;
constexpr std::int64_t kGpuOrder = 5'000'000;
/// Overflow rows, behind Kineto's.
constexpr std::int64_t kOverflowRow = 2'000'000;

ChromeObject event(std::string_view phase, std::string_view category, std::string_view name, std::int64_t pid,
                   std::int64_t tid) {
  ChromeObject out;
  out.text("ph", phase);
  if (!category.empty()) out.text("cat", category);
  out.text("name", name).number("pid", pid).number("tid", tid);
  return out;
}

/// Kineto's categories: driver calls are "cuLaunchKernelEx", runtime calls "cudaLaunchKernel".
std::string_view category_of(const HostOpRecord& op, std::string_view name) {
  switch (op.kind) {
    case HostOpRecord::Kind::runtime:
      return name.starts_with("cu") && !name.starts_with("cuda") ? "cuda_driver" : "cuda_runtime";
    case HostOpRecord::Kind::annotation:
      return "user_annotation";
    case HostOpRecord::Kind::cpu_op:
    case HostOpRecord::Kind::work:
      return "cpu_op";
  }
  return "cpu_op";
}

std::string_view category_of(const DeviceOpRecord& op, bool by_copies) {
  if (op.kind == DeviceOpRecord::Kind::copy || by_copies) return "gpu_memcpy";
  return op.kind == DeviceOpRecord::Kind::memset ? "gpu_memset" : "kernel";
}

/// c10d's names (ProcessGroupNCCL.cpp), as record_param_comms and its kernels carry them.
std::string_view collective_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return "_allgather_base";
    case CollectiveKind::reduce_scatter:
      return "_reduce_scatter_base";
    case CollectiveKind::all_reduce:
      return "allreduce";
    case CollectiveKind::all_to_all:
      return "all_to_all";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::reduce:
      return "reduce";
    case CollectiveKind::send_recv:
      return "send";
  }
  return "allreduce";
}

/// Viewers and HTA tell communication by names that begin with "nccl"; NCCL's symmetric kernels with "ncclSym".
std::string kernel_name(const Run& run, const DeviceOpRecord& op) {
  std::string name = op_name(run, op);
  if (op.kind != DeviceOpRecord::Kind::collective || name.starts_with("nccl")) return name;
  // NCCL's all-to-alls are sends and receives.
  const char* kinds[] = {"AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Broadcast", "Reduce", "SendRecv"};
  const bool symmetric = op.transport == Transport::symmetric;
  return fmt::format("{}_{} ({})", symmetric ? "ncclSymkDevKernel" : "ncclDevKernel",
                     kinds[static_cast<std::size_t>(op.collective)], foreshard::name(op.transport));
}

class ChromeWriter {
 public:
  ChromeWriter(const Run& run, const ExportSelection& selection, ByteSink& sink)
      : run_(run), selection_(selection), sink_(sink), calls_(calls_of_ops(run, selection)) {
    for (const DeviceOpRecord& op : run.device_ops) next_correlation_ = std::max(next_correlation_, op.correlation);
    for (const HostOpRecord& op : run.host_ops) next_correlation_ = std::max(next_correlation_, op.correlation);
    ++next_correlation_;
    has_calls_ = std::any_of(run.host_ops.begin(), run.host_ops.end(),
                             [](const HostOpRecord& op) { return op.kind == HostOpRecord::Kind::runtime; });
  }

  void write() {
    header();
    const std::vector<TrackRow> rows = track_rows(run_, selection_, run_.info.kind != RunKind::imported);
    names(rows);
    for (const TrackRow& row : rows)
      for (const Slice& slice : row.slices) put(row, slice);
    events();
    if (selection_.has_memory) memory();
    sink_.write("\n  ],\n  \"traceName\": \"foreshard\"\n}\n");
  }

 private:
  void put(const ChromeObject& object) {
    sink_.write(first_ ? "\n  " : ",\n  ");
    first_ = false;
    sink_.write(object.done());
  }

  void header() {
    ChromeObject device;
    device.number("id", kDevice)
        .text("name", run_.info.gpu)
        .number("totalGlobalMem", 0)
        .number("numSms", run_.info.sm_count);
    sink_.write("{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    " + device.done() + "\n  ],\n");
    const Settings& settings = run_.settings;
    // HTA finds the rank by its line: `"rank":`, a blank, a number.
    sink_.write(
        fmt::format("  \"distributedInfo\": {{\n    \"backend\": \"nccl\",\n    \"rank\": 0,\n    \"world_size\": {},\n"
                    "    \"pg_count\": 1,\n    \"nccl_version\": ",
                    std::uint64_t{settings.gpus} * settings.nodes));
    ChromeObject nccl;
    nccl.text("v", run_.info.nccl);
    const std::string quoted = nccl.done();
    sink_.write(quoted.substr(6, quoted.size() - 7) + "\n  },\n");
    sink_.write(
        "  \"profile_memory\": 1,\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": 0,\n  \"traceEvents\": "
        "[");
  }

  void name_row(std::string_view what, std::int64_t pid, std::int64_t tid, std::string_view name) {
    put(event("M", {}, what, pid, tid).time("ts", {}).object("args", ChromeObject().text("name", name)));
  }
  void order_row(std::string_view what, std::int64_t pid, std::int64_t tid, std::int64_t order) {
    put(event("M", {}, what, pid, tid).time("ts", {}).object("args", ChromeObject().number("sort_index", order)));
  }

  void names(const std::vector<TrackRow>& rows) {
    name_row("process_name", kHost, 0, run_.info.name.empty() ? "foreshard" : run_.info.name);
    put(event("M", {}, "process_labels", kHost, 0).time("ts", {}).object("args", ChromeObject().text("labels", "CPU")));
    order_row("process_sort_index", kHost, 0, kHost);
    name_row("process_name", kDevice, 0, run_.info.name.empty() ? "foreshard" : run_.info.name);
    put(event("M", {}, "process_labels", kDevice, 0)
            .time("ts", {})
            .object("args", ChromeObject().text("labels", "GPU 0")));
    order_row("process_sort_index", kDevice, 0, kGpuOrder);
    for (const TrackRow& row : rows) {
      if (row.kind != TrackRow::Kind::thread && row.kind != TrackRow::Kind::stream) continue;
      const bool stream = row.kind == TrackRow::Kind::stream;
      name_row("thread_name", stream ? kDevice : kHost, tid(row), row.name);
      order_row("thread_sort_index", stream ? kDevice : kHost, tid(row), tid(row));
    }
  }

  [[nodiscard]] std::int64_t tid(const TrackRow& row) const {
    const std::int64_t overflow = kOverflowRow * row.overflow;
    if (row.kind == TrackRow::Kind::stream)
      return overflow + static_cast<std::int64_t>(stream_number(run_, StreamId{row.number}));
    return overflow + kHost + row.number;
  }

  void put(const TrackRow& row, const Slice& slice) {
    if (slice.of == Slice::Of::device_op) return device_op(row, slice);
    if (slice.of == Slice::Of::host_op) return host_op(row, slice);
    // Steps and phases as a profiler's user sees them; those of another clock as spans that no reader takes for work.
    const std::string name = slice_name(run_, slice);
    const bool own = row.kind == TrackRow::Kind::thread;
    // "step 2", "step 2, never ends": readers take what stands behind # for a number.
    const std::size_t comma = slice.of == Slice::Of::step ? std::min(name.find(','), name.size()) : name.size();
    const std::string shown = slice.of == Slice::Of::step
                                  ? "ProfilerStep#" + name.substr(name.find(' ') + 1, comma - name.find(' ') - 1)
                              : slice.of == Slice::Of::phase ? "## " + name + " ##"
                                                             : name;
    ChromeObject out;
    out.text("ph", "X").text("cat", own ? "user_annotation" : "Trace").text("name", shown);
    if (comma < name.size()) out.object("args", ChromeObject().text("step", name));
    if (own)
      out.number("pid", kHost).number("tid", tid(row));
    else
      out.text("pid", "Memory recording").text("tid", row.name);
    put(out.time("ts", slice.start).time("dur", slice.end - slice.start));
  }

  void host_op(const TrackRow& row, const Slice& slice) {
    const HostOpRecord& op = run_.host_ops[slice.index];
    const std::string name = slice_name(run_, slice);
    ChromeObject out = event("X", category_of(op, name), name, kHost, tid(row));
    out.time("ts", slice.start).time("dur", slice.end - slice.start);
    if (op.correlation != 0) out.object("args", ChromeObject().count("correlation", op.correlation));
    put(out);
  }

  /// The call that put the op on its stream, where none was recorded, and the collective of a batch of copies.
  void issue(std::size_t index, const DeviceOpRecord& op, std::uint64_t correlation) {
    const char* call = op.kind == DeviceOpRecord::Kind::copy     ? "cudaMemcpyAsync"
                       : op.kind == DeviceOpRecord::Kind::memset ? "cudaMemsetAsync"
                                                                 : "cudaLaunchKernel";
    put(event("X", "cuda_runtime", call, kHost, kHost)
            .time("ts", op.issue + selection_.lanes_shift)
            .time("dur", {})
            .object("args", ChromeObject().count("External id", index + 1).count("correlation", correlation)));
  }

  void collective_facts(const DeviceOpRecord& op, ChromeObject& args) const {
    const std::uint64_t ranks = op.collective == CollectiveKind::all_reduce && run_.settings.replicate > 1
                                    ? run_.settings.replicate
                                    : run_.settings.shard_ranks();
    const Bytes part = op.bytes / std::max<std::uint64_t>(ranks, 1);
    args.text("Collective name", collective_name(op.collective));
    args.count("In msg nelems", op.collective == CollectiveKind::all_gather ? part : op.bytes);
    args.count("Out msg nelems", op.collective == CollectiveKind::reduce_scatter ? part : op.bytes);
    args.count("Group size", ranks).text("dtype", "Byte");
    if (op.communicator.valid()) args.text("Process Group Name", std::to_string(op.communicator.value));
    args.text("transport", name(op.transport));
  }

  void device_op(const TrackRow& row, const Slice& slice) {
    const DeviceOpRecord& op = run_.device_ops[slice.index];
    const bool collective = op.kind == DeviceOpRecord::Kind::collective;
    const bool by_copies = collective && op.transport == Transport::copy_engine;
    const bool recorded = calls_[slice.index] != kNoCall;
    const bool issued = recorded || op.issue < op.start;
    const std::uint64_t correlation = op.correlation != 0 ? op.correlation : next_correlation_++;
    if (issued && !recorded) issue(slice.index, op, correlation);
    if (by_copies) {
      ChromeObject facts;
      facts.count("External id", slice.index + 1);
      collective_facts(op, facts);
      put(event("X", "cpu_op", "record_param_comms", kHost, kHost)
              .time("ts", op.issue + selection_.lanes_shift)
              .time("dur", {})
              .object("args", facts));
    }
    ChromeObject args;
    args.count("External id", slice.index + 1);
    args.time("queued", op.start - op.issue).number("device", kDevice).number("context", 1);
    args.count("stream", stream_number(run_, op.stream));
    if (issued || op.correlation != 0) args.count("correlation", correlation);
    if (op.bytes != 0 && (op.kind == DeviceOpRecord::Kind::copy || by_copies || !collective))
      args.count("bytes", op.bytes);
    if (op.grid[0] != 0) {
      args.raw("grid", fmt::format("[{}, {}, {}]", op.grid[0], op.grid[1], op.grid[2]));
      args.raw("block", fmt::format("[{}, {}, {}]", op.block[0], op.block[1], op.block[2]));
    }
    if (collective && !by_copies) collective_facts(op, args);
    if (const std::string unit = unit_name(run_, op.unit); !unit.empty()) args.text("unit", unit);
    std::string name = kernel_name(run_, op);
    if (by_copies && !name.starts_with("Memcpy PtoP")) name = "Memcpy PtoP (Device -> Device)";
    put(event("X", category_of(op, by_copies), name, kDevice, tid(row))
            .time("ts", slice.start)
            .time("dur", slice.end - slice.start)
            .object("args", args));
    if (issued) flow(slice, op, tid(row), correlation);
  }

  void flow(const Slice& slice, const DeviceOpRecord& op, std::int64_t row, std::uint64_t correlation) {
    const std::size_t call = calls_[slice.index];
    const std::int64_t thread = call == kNoCall ? kHost : kHost + run_.host_ops[call].thread;
    const Nanoseconds from = call == kNoCall ? op.issue : run_.host_ops[call].start;
    put(event("s", "ac2g", "ac2g", kHost, thread).count("id", correlation).time("ts", from + selection_.lanes_shift));
    put(event("f", "ac2g", "ac2g", kDevice, row).count("id", correlation).time("ts", slice.start).text("bp", "e"));
  }

  /// A recording of an event that waits name.
  struct Recorded {
    std::uint64_t correlation = 0;  // 0: recorded before the selection
    StreamId stream;
  };

  /// cudaEventRecord and the waits for it, as Kineto writes them with enable_cuda_sync_events.
  void events() {
    std::map<EventId, Recorded> recorded;
    for (const EventRecord& record : run_.events) {
      if (!record.event.valid() || !selection_.holds(record)) continue;
      Recorded& source = recorded[record.event];
      const std::uint64_t correlation = next_correlation_++;
      if (record.kind == EventRecord::Kind::record) source = {correlation, record.stream};
      if (source.correlation != 0) put(record, source, correlation);
    }
  }

  void put(const EventRecord& record, const Recorded& source, std::uint64_t correlation) {
    const Nanoseconds time = record.time + selection_.lanes_shift;
    const bool is_record = record.kind == EventRecord::Kind::record;
    const bool on_host = record.kind == EventRecord::Kind::host_wait;
    if (!has_calls_) {
      const char* call = is_record ? "cudaEventRecord" : on_host ? "cudaEventSynchronize" : "cudaStreamWaitEvent";
      put(event("X", "cuda_runtime", call, kHost, kHost)
              .time("ts", time)
              .time("dur", {})
              .object("args", ChromeObject().count("correlation", correlation)));
    }
    const std::uint64_t stream = stream_number(run_, record.stream.valid() ? record.stream : source.stream);
    const std::int64_t row = static_cast<std::int64_t>(stream) + kSyncRow;
    if (sync_rows_.insert(row).second) {
      name_row("thread_name", kDevice, row, fmt::format("stream {} (sync)", stream));
      order_row("thread_sort_index", kDevice, row, row);
    }
    ChromeObject args;
    args.count("stream", stream).count("correlation", correlation).number("device", kDevice).number("context", 1);
    if (is_record) {
      args.count("event_id", record.event.value);
    } else {
      args.text("cuda_sync_kind", on_host ? "Event Sync" : "Stream Wait Event");
      args.count("wait_on_stream", stream_number(run_, source.stream));
      args.count("wait_on_cuda_event_record_corr_id", source.correlation);
      args.count("wait_on_cuda_event_id", record.event.value);
    }
    const char* what = is_record ? "cudaEventRecord" : on_host ? "Event Sync" : "Stream Wait Event";
    put(event("X", is_record ? "cuda_event" : "cuda_sync", what, kDevice, row)
            .time("ts", time)
            .time("dur", {})
            .object("args", args));
  }

  void counters(Nanoseconds time, const MemoryTotals& totals) {
    ChromeObject args;
    args.number("allocated", totals.allocated).number("active", totals.active).number("requested", totals.requested);
    args.number("reserved", totals.reserved);
    put(event("C", {}, "GPU 0 memory", kDevice, 0).time("ts", time).object("args", args));
  }

  /// Kineto's `[memory]` instants, which HTA reads, and counters, which viewers draw.
  void memory() {
    MemoryTotals totals = totals_before(run_);
    bool begun = false;
    for (std::size_t i = 0; i < run_.allocator.size(); ++i) {
      const AllocatorRecord& record = run_.allocator[i];
      const bool held = selection_.holds(record);
      const Nanoseconds time = record.time + selection_.memory_shift;
      if (held && !begun) counters(time, totals);
      begun |= held;
      const MemoryTotals before = totals;
      apply(run_, record, totals);
      if (!held) continue;
      if (totals.allocated != before.allocated) {
        ChromeObject args;
        args.number("Total Reserved", totals.reserved).number("Total Allocated", totals.allocated);
        args.number("Bytes", totals.allocated - before.allocated).count("Addr", record.address);
        args.number("Device Id", kDevice).number("Device Type", 1).count("Ev Idx", i);
        put(event("i", "cpu_instant_event", "[memory]", kHost, kHost)
                .text("s", "t")
                .time("ts", time)
                .object("args", args));
      }
      if (totals != before) counters(time, totals);
    }
  }

  const Run& run_;
  const ExportSelection& selection_;
  ByteSink& sink_;
  std::vector<std::size_t> calls_;
  std::uint64_t next_correlation_ = 0;
  std::set<std::int64_t> sync_rows_;
  bool has_calls_ = false;
  bool first_ = true;
};

}  // namespace

void write_chrome_trace(const Run& run, const ExportSelection& selection, ByteSink& sink) {
  ChromeWriter(run, selection, sink).write();
}

}  // namespace foreshard::traces
