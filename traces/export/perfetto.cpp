#include "traces/export/perfetto.hpp"

#include <fmt/core.h>

#include <array>
#include <map>
#include <optional>

#include "core/compare/memory_totals.hpp"
#include "core/run/run_names.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/export/protobuf_writer.hpp"
#include "traces/export/tracks.hpp"

namespace foreshard::traces {
namespace {

// Field numbers of perfetto.protos (proto2): protos/perfetto/trace/{trace,trace_packet}.proto,
// track_event/{track_event,track_descriptor,counter_descriptor,process_descriptor,thread_descriptor,
// debug_annotation}.proto, interned_data/interned_data.proto.
namespace trace {
constexpr std::uint32_t kPacket = 1;
}
namespace packet {
constexpr std::uint32_t kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInternedData = 12, kSequenceFlags = 13,
                        kTrackDescriptor = 60;
}
namespace descriptor {
constexpr std::uint32_t kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParent = 5, kCounter = 8, kOrdering = 11,
                        kRank = 12, kMerge = 15;
constexpr std::uint64_t kExplicit = 3, kMergeNone = 2;
}  // namespace descriptor
namespace process {
constexpr std::uint32_t kPid = 1, kName = 6;
}
namespace thread {
constexpr std::uint32_t kPid = 1, kTid = 2, kName = 5;
}
namespace counter {
constexpr std::uint32_t kUnit = 3, kShareKey = 7;
constexpr std::uint64_t kBytes = 3;
}  // namespace counter
namespace track_event {
constexpr std::uint32_t kCategoryIid = 3, kAnnotation = 4, kType = 9, kNameIid = 10, kTrack = 11, kCounterValue = 30,
                        kFlow = 47, kTerminatingFlow = 48;
constexpr std::uint64_t kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4;
}  // namespace track_event
namespace annotation {
constexpr std::uint32_t kNameIid = 1, kUint = 3, kInt = 4, kString = 6;
}
namespace interned {
constexpr std::uint32_t kCategories = 1, kNames = 2, kAnnotationNames = 3, kIid = 1, kText = 2;
}
constexpr std::uint64_t kSequenceId = 1;
constexpr std::uint64_t kPid = 1;  // of the one process that is shown

/// FNV-1a of a track's path: the same track has the same number in every file.
std::uint64_t uuid_of(std::string_view path) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash == 0 ? 1 : hash;
}

constexpr std::array<std::string_view, 4> kCounters{"reserved", "active", "allocated", "requested"};

std::uint64_t counter_track(std::string_view name) {
  return uuid_of(fmt::format("counter {}", name));
}

class PerfettoWriter {
 public:
  PerfettoWriter(const Run& run, const ExportSelection& selection, ByteSink& sink)
      : run_(run), selection_(selection), sink_(sink), calls_(calls_of_ops(run, selection)) {}

  void write() {
    const std::vector<TrackRow> rows = track_rows(run_, selection_);
    describe_process();
    if (selection_.has_memory) describe_counters();
    for (std::size_t i = 0; i < rows.size(); ++i) describe(rows[i], i);
    for (const TrackRow& row : rows) slices(row);
    if (selection_.has_lanes && selection_.has_device) issues();
    if (selection_.has_memory) memory();
  }

 private:
  // Interning: a text's number, written out with the first packet that uses it.
  struct Pool {
    std::uint32_t field = 0;
    std::map<std::string, std::uint64_t, std::less<>> ids;
  };
  std::uint64_t intern(Pool& pool, std::string_view text) {
    const auto found = pool.ids.find(text);
    if (found != pool.ids.end()) return found->second;
    const std::uint64_t id = pool.ids.size() + 1;
    pool.ids.emplace(std::string(text), id);
    ProtobufWriter entry;
    entry.varint(interned::kIid, id);
    entry.bytes(interned::kText, text);
    new_texts_.message(pool.field, entry);
    return id;
  }

  void put(ProtobufWriter& body) {
    body.varint(packet::kSequence, kSequenceId);
    body.varint(packet::kSequenceFlags, first_ ? 1 : 2);  // state cleared; state needed
    first_ = false;
    if (!new_texts_.text().empty()) body.message(packet::kInternedData, new_texts_);
    new_texts_.clear();
    ProtobufWriter file;
    file.message(trace::kPacket, body);
    sink_.write(file.text());
  }

  void put_event(Nanoseconds time, const ProtobufWriter& track_event) {
    ProtobufWriter body;
    body.varint(packet::kTimestamp, static_cast<std::uint64_t>(time.count));
    body.message(packet::kTrackEvent, track_event);
    put(body);
  }

  void put_descriptor(const ProtobufWriter& track) {
    ProtobufWriter body;
    body.message(packet::kTrackDescriptor, track);
    put(body);
  }

  void describe_process() {
    process_ = uuid_of("process");
    ProtobufWriter names;
    names.varint(process::kPid, kPid);
    names.bytes(process::kName,
                fmt::format("{} ({})", run_.info.name.empty() ? "run" : run_.info.name, name(run_.info.kind)));
    ProtobufWriter track;
    track.varint(descriptor::kUuid, process_);
    track.message(descriptor::kProcess, names);
    track.varint(descriptor::kOrdering, descriptor::kExplicit);
    put_descriptor(track);
  }

  void describe_counters() {
    std::uint64_t rank = 0;
    for (const std::string_view name : kCounters) {
      ProtobufWriter unit;
      unit.varint(counter::kUnit, counter::kBytes);
      unit.bytes(counter::kShareKey, "memory");
      ProtobufWriter track;
      track.varint(descriptor::kUuid, counter_track(name));
      track.bytes(descriptor::kName, name);
      track.varint(descriptor::kParent, process_);
      track.message(descriptor::kCounter, unit);
      track.varint(descriptor::kRank, rank++);
      put_descriptor(track);
    }
    ProtobufWriter track;
    track.varint(descriptor::kUuid, uuid_of("memory marks"));
    track.bytes(descriptor::kName, "allocator");
    track.varint(descriptor::kParent, process_);
    track.varint(descriptor::kRank, rank);
    put_descriptor(track);
  }

  static std::uint64_t uuid(const TrackRow& row) {
    return uuid_of(fmt::format("{} {} {}", static_cast<int>(row.kind), row.number, row.overflow));
  }

  void describe(const TrackRow& row, std::size_t place) {
    constexpr std::size_t kBehindCounters = 16;
    ProtobufWriter track;
    track.varint(descriptor::kUuid, uuid(row));
    if (row.kind == TrackRow::Kind::thread && row.overflow == 0) {
      ProtobufWriter names;
      names.varint(thread::kPid, kPid);
      names.varint(thread::kTid, kPid + row.number);  // the main thread's number is the process's
      names.bytes(thread::kName, row.name);
      track.message(descriptor::kThread, names);
    } else {
      track.bytes(descriptor::kName, row.name);
      track.varint(descriptor::kParent, process_);
    }
    track.varint(descriptor::kRank, place + kBehindCounters);
    track.varint(descriptor::kMerge, descriptor::kMergeNone);
    put_descriptor(track);
  }

  void slices(const TrackRow& row) {
    const std::uint64_t track = uuid(row);
    std::vector<Nanoseconds> open;
    const auto close = [&] {
      ProtobufWriter event;
      event.varint(track_event::kType, track_event::kEnd);
      event.varint(track_event::kTrack, track);
      put_event(open.back(), event);
      open.pop_back();
    };
    for (const Slice& slice : row.slices) {
      while (!open.empty() && open.back() <= slice.start) close();
      ProtobufWriter event;
      event.varint(track_event::kType, track_event::kBegin);
      event.varint(track_event::kTrack, track);
      event.varint(track_event::kNameIid, intern(names_, slice_name(run_, slice)));
      event.varint(track_event::kCategoryIid, intern(categories_, category(slice)));
      if (slice.of == Slice::Of::device_op) device_facts(slice.index, event);
      if (slice.of == Slice::Of::host_op) host_facts(slice.index, event);
      put_event(slice.start, event);
      open.push_back(slice.end);
    }
    while (!open.empty()) close();
  }

  std::string_view category(const Slice& slice) const {
    constexpr std::array<std::string_view, 3> kWords{"step", "phase", "range"};
    if (slice.of == Slice::Of::host_op) return name(run_.host_ops[slice.index].kind);
    if (slice.of != Slice::Of::device_op) return kWords[static_cast<std::size_t>(slice.of)];
    const DeviceOpRecord& op = run_.device_ops[slice.index];
    return op.kind == DeviceOpRecord::Kind::collective ? name(op.collective) : name(op.kind);
  }

  void fact(ProtobufWriter& event, std::string_view name, std::string_view text) {
    ProtobufWriter value;
    value.varint(annotation::kNameIid, intern(annotations_, name));
    value.bytes(annotation::kString, text);
    event.message(track_event::kAnnotation, value);
  }
  void fact(ProtobufWriter& event, std::string_view name, std::uint64_t number) {
    ProtobufWriter value;
    value.varint(annotation::kNameIid, intern(annotations_, name));
    value.varint(annotation::kUint, number);
    event.message(track_event::kAnnotation, value);
  }

  void device_facts(std::size_t index, ProtobufWriter& event) {
    const DeviceOpRecord& op = run_.device_ops[index];
    if (const std::string unit = unit_name(run_, op.unit); !unit.empty()) fact(event, "unit", unit);
    fact(event, "stream", stream_number(run_, op.stream));
    if (op.bytes != 0) fact(event, "bytes", op.bytes);
    if (op.correlation != 0) fact(event, "correlation", op.correlation);
    if (op.issue < op.start) fact(event, "queued ns", static_cast<std::uint64_t>((op.start - op.issue).count));
    if (op.kind == DeviceOpRecord::Kind::collective) {
      fact(event, "transport", name(op.transport));
      if (op.communicator.valid()) fact(event, "communicator", std::uint64_t{op.communicator.value});
    }
    if (op.kind == DeviceOpRecord::Kind::kernel && run_.info.kind != RunKind::imported)
      fact(event, "class", name(op.kernel_class));
    if (op.grid[0] != 0) {
      fact(event, "grid", fmt::format("{}, {}, {}", op.grid[0], op.grid[1], op.grid[2]));
      fact(event, "block", fmt::format("{}, {}, {}", op.block[0], op.block[1], op.block[2]));
    }
    if (has_flow(index)) event.fixed64(track_event::kTerminatingFlow, index + 1);
  }

  void host_facts(std::size_t index, ProtobufWriter& event) {
    const HostOpRecord& op = run_.host_ops[index];
    if (op.correlation == 0) return;
    fact(event, "correlation", op.correlation);
    if (ops_of_call_.empty())
      for (std::size_t i = 0; i < calls_.size(); ++i)
        if (calls_[i] != kNoCall && selection_.holds(run_.device_ops[i])) ops_of_call_.emplace(calls_[i], i);
    const auto [first, last] = ops_of_call_.equal_range(index);
    for (auto it = first; it != last; ++it) event.fixed64(track_event::kFlow, it->second + 1);
  }

  [[nodiscard]] bool has_flow(std::size_t op) const {
    return calls_[op] != kNoCall || run_.device_ops[op].issue < run_.device_ops[op].start;
  }

  /// Calls that were not recorded as host ops: an instant on the main thread from which the flow starts.
  void issues() {
    TrackRow main;
    main.kind = TrackRow::Kind::thread;
    const std::uint64_t track = uuid(main);
    for (std::size_t i = 0; i < run_.device_ops.size(); ++i) {
      const DeviceOpRecord& op = run_.device_ops[i];
      if (!selection_.holds(op) || calls_[i] != kNoCall || !has_flow(i)) continue;
      ProtobufWriter event;
      event.varint(track_event::kType, track_event::kInstant);
      event.varint(track_event::kTrack, track);
      event.varint(track_event::kNameIid, intern(names_, op_name(run_, op)));
      event.varint(track_event::kCategoryIid, intern(categories_, "issue"));
      event.fixed64(track_event::kFlow, i + 1);
      put_event(op.issue + selection_.lanes_shift, event);
    }
  }

  struct Counter {
    std::uint64_t track = 0;
    std::optional<std::int64_t> last;
  };
  void count(Nanoseconds time, std::int64_t value, Counter& counter) {
    if (counter.last == value) return;
    counter.last = value;
    ProtobufWriter event;
    event.varint(track_event::kType, track_event::kCounter);
    event.varint(track_event::kTrack, counter.track);
    event.varint(track_event::kCounterValue, static_cast<std::uint64_t>(value));
    put_event(time, event);
  }

  void mark(const AllocatorRecord& record, Nanoseconds time) {
    if (record.action != AllocatorAction::segment_free && record.action != AllocatorAction::oom) return;
    ProtobufWriter event;
    event.varint(track_event::kType, track_event::kInstant);
    event.varint(track_event::kTrack, uuid_of("memory marks"));
    event.varint(track_event::kNameIid, intern(names_, name(record.action)));
    event.varint(track_event::kCategoryIid, intern(categories_, "allocator"));
    fact(event, "bytes", record.size);
    put_event(time, event);
  }

  void memory() {
    MemoryTotals totals = totals_before(run_);
    std::array<Counter, kCounters.size()> each;
    for (std::size_t i = 0; i < each.size(); ++i) each[i].track = counter_track(kCounters[i]);
    bool begun = false;
    const auto counters = [&](Nanoseconds time) {
      count(time, totals.reserved, each[0]);
      count(time, totals.active, each[1]);
      count(time, totals.allocated, each[2]);
      count(time, totals.requested, each[3]);
    };
    for (const AllocatorRecord& record : run_.allocator) {
      const bool held = selection_.holds(record);
      const Nanoseconds time = record.time + selection_.memory_shift;
      if (held && !begun) counters(time);
      begun |= held;
      apply(run_, record, totals);
      if (!held) continue;
      counters(time);
      mark(record, time);
    }
  }

  const Run& run_;
  const ExportSelection& selection_;
  ByteSink& sink_;
  std::vector<std::size_t> calls_;
  std::multimap<std::size_t, std::size_t> ops_of_call_;
  Pool names_{interned::kNames, {}};
  Pool categories_{interned::kCategories, {}};
  Pool annotations_{interned::kAnnotationNames, {}};
  ProtobufWriter new_texts_;
  std::uint64_t process_ = 0;
  bool first_ = true;
};

}  // namespace

void write_perfetto(const Run& run, const ExportSelection& selection, ByteSink& sink) {
  PerfettoWriter(run, selection, sink).write();
}

}  // namespace foreshard::traces
