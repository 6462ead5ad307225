#include "traces/export/tracks.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "core/run/plan_results.hpp"
#include "core/run/run_names.hpp"

namespace foreshard::traces {
namespace {

using Kind = TrackRow::Kind;

constexpr const char* kNeverEnds = ", never ends";  ///< of a step of a job that hangs in it

void sort_slices(std::vector<Slice>& slices) {
  std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return std::tuple(a.start, b.end, a.of) < std::tuple(b.start, a.end, b.of);
  });
}

/// Deals slices out to rows, each to the first in which it fits.
class Rows {
 public:
  Rows(Kind kind, std::uint32_t number, std::string name, bool may_nest)
      : kind_(kind), number_(number), name_(std::move(name)), may_nest_(may_nest) {}

  void add(Slice slice) {
    slice.end = std::max(slice.start, slice.end);
    for (std::size_t i = 0;; ++i) {
      if (i == rows_.size()) open_row();
      std::vector<Nanoseconds>& open = open_[i];
      while (!open.empty() && open.back() <= slice.start) open.pop_back();
      if (!open.empty() && (!may_nest_ || slice.end > open.back())) continue;
      open.push_back(slice.end);
      rows_[i].slices.push_back(slice);
      return;
    }
  }
  void open_row() {
    const auto overflow = static_cast<std::uint32_t>(rows_.size());
    std::string name = overflow == 0 ? name_ : fmt::format("{}, overlapping {}", name_, overflow);
    rows_.push_back({kind_, number_, overflow, std::move(name), {}});
    open_.emplace_back();
  }
  void move_to(std::vector<TrackRow>& out) {
    for (TrackRow& row : rows_) out.push_back(std::move(row));
  }

 private:
  Kind kind_;
  std::uint32_t number_;
  std::string name_;
  bool may_nest_;
  std::vector<TrackRow> rows_;
  std::vector<std::vector<Nanoseconds>> open_;  // ends of open slices, by row
};

std::vector<Slice> step_slices(const Run& run, const ExportSelection& selection, Recording recording) {
  const Nanoseconds shift = selection.shift(recording);
  std::vector<Slice> slices;
  for (std::size_t i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].recording == recording && selection.holds(recording, run.steps[i].start))
      slices.push_back({run.steps[i].start + shift, run.steps[i].end + shift, Slice::Of::step, i});
  for (std::size_t i = 0; i < run.phases.size(); ++i)
    if (run.phases[i].recording == recording && selection.holds(recording, run.phases[i].start))
      slices.push_back({run.phases[i].start + shift, run.phases[i].end + shift, Slice::Of::phase, i});
  return slices;
}

void add_steps(const Run& run, const ExportSelection& selection, Recording recording, Kind kind,
               std::vector<TrackRow>& out) {
  std::vector<Slice> slices = step_slices(run, selection, recording);
  sort_slices(slices);
  Rows rows(kind, 0, kind == Kind::steps ? "steps" : "steps of the memory recording", true);
  for (const Slice& slice : slices) rows.add(slice);
  rows.move_to(out);
}

void add_memory_ranges(const Run& run, const ExportSelection& selection, std::vector<TrackRow>& out) {
  if (!selection.has_memory) return;
  std::vector<Slice> slices;
  for (std::size_t i = 0; i < run.annotations.size(); ++i) {
    const AnnotationRecord& range = run.annotations[i];
    if (!selection.holds(selection.memory, range.start)) continue;
    slices.push_back({range.start + selection.memory_shift, range.end + selection.memory_shift, Slice::Of::range, i});
  }
  sort_slices(slices);
  Rows rows(Kind::memory_ranges, 0, "ranges of the memory recording", true);
  for (const Slice& slice : slices) rows.add(slice);
  rows.move_to(out);
}

void add_threads(const Run& run, const ExportSelection& selection, bool steps_on_main, std::vector<TrackRow>& out) {
  std::map<std::uint32_t, std::vector<Slice>> threads;
  if (steps_on_main && selection.has_lanes) threads[0] = step_slices(run, selection, selection.lanes);
  if (selection.has_lanes && selection.has_device) threads[0];
  for (std::size_t i = 0; i < run.host_ops.size(); ++i)
    if (const HostOpRecord& op = run.host_ops[i]; selection.holds(op))
      threads[op.thread].push_back(
          {op.start + selection.lanes_shift, op.end + selection.lanes_shift, Slice::Of::host_op, i});
  for (auto& [thread, slices] : threads) {
    sort_slices(slices);
    const char* role = thread == 0 ? " (main)" : thread == 1 ? " (autograd)" : "";
    Rows rows(Kind::thread, thread, fmt::format("thread {}{}", thread, role), true);
    rows.open_row();
    for (const Slice& slice : slices) rows.add(slice);
    rows.move_to(out);
  }
}

void add_streams(const Run& run, const ExportSelection& selection, std::vector<TrackRow>& out) {
  if (!selection.has_device) return;
  std::map<StreamId, std::vector<Slice>> streams;
  for (std::size_t i = 0; i < run.device_ops.size(); ++i)
    if (const DeviceOpRecord& op = run.device_ops[i]; selection.holds(op))
      streams[op.stream].push_back(
          {op.start + selection.lanes_shift, op.end + selection.lanes_shift, Slice::Of::device_op, i});
  for (auto& [stream, slices] : streams) {
    sort_slices(slices);
    const std::string role = stream_role(run, stream);
    std::string name = fmt::format("stream {}", stream_number(run, stream));
    if (!role.empty()) name += fmt::format(" ({})", role);
    Rows rows(Kind::stream, stream.value, std::move(name), false);
    for (const Slice& slice : slices) rows.add(slice);
    rows.move_to(out);
  }
}

const StreamRecord* find_stream(const Run& run, StreamId id) {
  for (const StreamRecord& stream : run.streams)
    if (stream.id == id) return &stream;
  return nullptr;
}

}  // namespace

std::vector<TrackRow> track_rows(const Run& run, const ExportSelection& selection, bool steps_on_main) {
  std::vector<TrackRow> rows;
  if (!steps_on_main) add_steps(run, selection, selection.lanes, Kind::steps, rows);
  if (selection.two_clocks()) add_steps(run, selection, selection.memory, Kind::memory_steps, rows);
  add_memory_ranges(run, selection, rows);
  add_threads(run, selection, steps_on_main, rows);
  add_streams(run, selection, rows);
  return rows;
}

std::string op_name(const Run& run, const DeviceOpRecord& op) {
  const std::string& label = run.labels.text(op.label);
  if (!label.empty()) return label;
  if (op.kind == DeviceOpRecord::Kind::collective) return std::string(name(op.collective));
  if (op.kind == DeviceOpRecord::Kind::kernel) return std::string(name(op.kernel_class));
  return std::string(name(op.kind));
}

std::string slice_name(const Run& run, const Slice& slice) {
  switch (slice.of) {
    case Slice::Of::step:
      return fmt::format("step {}{}", run.steps[slice.index].index,
                         never_ends(run, run.steps[slice.index]) ? kNeverEnds : "");
    case Slice::Of::phase:
      return run.phases[slice.index].name;
    case Slice::Of::range:
      return run.labels.text(run.annotations[slice.index].label);
    case Slice::Of::host_op: {
      const std::string& label = run.labels.text(run.host_ops[slice.index].label);
      return label.empty() ? std::string(name(run.host_ops[slice.index].kind)) : label;
    }
    case Slice::Of::device_op:
      return op_name(run, run.device_ops[slice.index]);
  }
  return {};
}

std::uint64_t stream_number(const Run& run, StreamId id) {
  constexpr std::uint64_t kDefaultStream = 7;  // CUPTI's number of a context's default stream, as Kineto prints it
  const StreamRecord* stream = find_stream(run, id);
  if (stream != nullptr && stream->handle != 0) return stream->handle;
  return kDefaultStream + (id.valid() ? id.value : 0);
}

std::string stream_role(const Run& run, StreamId id) {
  const StreamRecord* stream = find_stream(run, id);
  if (stream != nullptr && !stream->name.starts_with("stream ")) return stream->name;
  if (id == kComputeStream) return "compute";
  std::array<std::size_t, EnumNames<CollectiveKind>::kNames.size()> collectives{};
  for (const DeviceOpRecord& op : run.device_ops)
    if (op.stream == id && op.kind == DeviceOpRecord::Kind::collective)
      ++collectives[static_cast<std::size_t>(op.collective)];
  const auto most = std::max_element(collectives.begin(), collectives.end());
  if (*most == 0) return {};
  return std::string(name(static_cast<CollectiveKind>(most - collectives.begin())));
}

std::string unit_name(const Run& run, UnitId unit) {
  if (unit.value >= run.units.size()) return {};
  const std::string& name = run.units[unit.value].name;
  return name.empty() ? "root" : name;
}

std::vector<std::size_t> calls_of_ops(const Run& run, const ExportSelection& selection) {
  std::vector<std::pair<std::uint64_t, std::size_t>> calls;
  for (std::size_t i = 0; i < run.host_ops.size(); ++i)
    if (const HostOpRecord& op = run.host_ops[i]; op.correlation != 0 && selection.holds(op))
      calls.emplace_back(op.correlation, i);
  std::sort(calls.begin(), calls.end());
  std::vector<std::size_t> out;
  out.reserve(run.device_ops.size());
  for (const DeviceOpRecord& op : run.device_ops) {
    const auto found = std::lower_bound(calls.begin(), calls.end(), std::pair{op.correlation, std::size_t{0}});
    const bool has = op.correlation != 0 && found != calls.end() && found->first == op.correlation;
    out.push_back(has ? found->second : kNoCall);
  }
  return out;
}

}  // namespace foreshard::traces
