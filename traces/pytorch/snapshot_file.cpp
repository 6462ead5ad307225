#include "traces/pytorch/snapshot_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "traces/pytorch/json_data.hpp"
#include "traces/pytorch/pickle.hpp"
#include "traces/pytorch/snapshot_parts.hpp"

namespace foreshard::traces {

namespace {

using Severity = ImportStat::Severity;

constexpr std::string_view kHowToMake =
    "write one with torch.cuda.memory._record_memory_history() and torch.cuda.memory._dump_snapshot()";
/// First value of a checkpoint in torch.save's format before zip (torch/serialization.py, MAGIC_NUMBER
/// 0x1950a86a20f9469cfc6c), little-endian as LONG1 stores it.
constexpr std::string_view kCheckpointMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr std::size_t kMaxDevices = 1024;  // far beyond the GPUs of one host; bounds what a hostile file can list

struct Parts {
  PlainValue segments;
  PlainValue traces;  // kind none where the key is absent
  PlainValue annotations;
  PlainValue settings;
};

bool looks_like_json(const std::string& bytes) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string::npos && (bytes[first] == '{' || bytes[first] == '[');
}

tl::unexpected<Error> foreign_dict(const PlainDocument& document, PlainValue root, const std::string& name) {
  std::vector<std::string> keys;
  constexpr std::size_t kShown = 5;
  const auto entries = document.entries(root);
  for (std::size_t i = 0; i < entries.size() && keys.size() < kShown; i += 2)
    if (const auto key = document.string(entries[i])) keys.emplace_back(key->substr(0, 40));
  if (document.entries(root).size() <= 1000 && document.find(root, "traceEvents"))
    return fail(ErrorKind::input, "this is a profiler trace, not a memory snapshot", name, "give it as the trace");
  return fail(ErrorKind::input,
              fmt::format("this is not a memory snapshot: a dict without a list 'segments' (its keys: {})",
                          keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", "))),
              name, std::string(kHowToMake));
}

Result<Parts> find_parts(const PlainDocument& document, const std::string& name) {
  const PlainValue root = document.root();
  if (root.kind() == PlainKind::huge_integer)
    return fail(ErrorKind::input, "this is a checkpoint written by torch.save, not a memory snapshot", name,
                std::string(kHowToMake));
  if (root.kind() == PlainKind::list)
    return fail(ErrorKind::input,
                "this is a list, not a memory snapshot: torch.cuda.memory_snapshot() gives only the segments", name,
                std::string(kHowToMake));
  if (root.kind() != PlainKind::dict)
    return fail(ErrorKind::input, fmt::format("this is {}, not a memory snapshot", describe(root.kind())), name,
                std::string(kHowToMake));
  const auto segments = document.find(root, "segments");
  if (!segments || segments->kind() != PlainKind::list) return foreign_dict(document, root, name);
  Parts parts;
  parts.segments = *segments;
  parts.traces = document.find(root, "device_traces").value_or(PlainValue{});
  parts.annotations = document.find(root, "external_annotations").value_or(PlainValue{});
  parts.settings = document.find(root, "allocator_settings").value_or(PlainValue{});
  for (const auto& [value, key] :
       {std::pair{parts.traces, "device_traces"}, {parts.annotations, "external_annotations"}})
    if (value.kind() != PlainKind::none && value.kind() != PlainKind::list)
      return fail(ErrorKind::input, fmt::format("'{}' is {}, not a list", key, describe(value.kind())), name);
  if (document.items(parts.traces).size() > kMaxDevices)
    return fail(ErrorKind::input, fmt::format("'device_traces' has more than {} devices", kMaxDevices), name);
  for (const PlainValue trace : document.items(parts.traces))
    if (trace.kind() != PlainKind::list)
      return fail(ErrorKind::input, fmt::format("'device_traces' holds {}, not lists", describe(trace.kind())), name);
  return parts;
}

/// The devices that have segments. A malformed segment is read_segments' to report.
std::set<std::uint32_t> devices_with_segments(const PlainDocument& document, PlainValue segments) {
  std::set<std::uint32_t> devices;
  for (const PlainValue segment : document.items(segments)) {
    constexpr std::size_t kMaxKeys = 256;
    if (document.entries(segment).size() > 2 * kMaxKeys) continue;
    const auto value = document.find(segment, "device");
    const auto device = value ? document.uint64(*value) : std::optional<std::uint64_t>{0};
    if (device && *device < kMaxDevices) devices.insert(static_cast<std::uint32_t>(*device));
  }
  return devices;
}

Result<std::uint32_t> choose_device(const SnapshotOptions& options, const std::set<std::uint32_t>& traced,
                                    const std::set<std::uint32_t>& all, const std::string& name) {
  if (options.device) {
    if (all.contains(*options.device)) return *options.device;
    return fail(ErrorKind::usage, fmt::format("the snapshot has no events of device {}", *options.device), name,
                fmt::format("it has device {}", fmt::join(all, ", ")));
  }
  const std::set<std::uint32_t>& candidates = traced.empty() ? all : traced;
  if (candidates.size() == 1) return *candidates.begin();
  return fail(ErrorKind::usage, fmt::format("the snapshot holds several devices: {}", fmt::join(candidates, ", ")),
              name, "choose one with --device N");
}

Result<SnapshotFile> read_document(const PlainDocument& document, const std::string& name, Bytes input_bytes,
                                   const SnapshotOptions& options) {
  auto parts = find_parts(document, name);
  FORESHARD_TRY(parts);
  const auto traces = document.items(parts->traces);
  std::set<std::uint32_t> traced;
  for (std::size_t i = 0; i < traces.size(); ++i)
    if (!document.items(traces[i]).empty()) traced.insert(static_cast<std::uint32_t>(i));
  std::set<std::uint32_t> all = devices_with_segments(document, parts->segments);
  all.insert(traced.begin(), traced.end());
  if (all.empty())
    return fail(ErrorKind::input, "the snapshot is empty: no segments and no recorded allocations", name,
                "call torch.cuda.memory._record_memory_history() before the model is built");
  auto device = choose_device(options, traced, all, name);
  FORESHARD_TRY(device);

  StatList stats;
  StackReader stacks(document, stats);
  SnapshotContext context{document, name, stats, stacks, input_bytes};
  SnapshotFile file;
  file.devices.assign(all.begin(), all.end());
  file.snapshot.device = *device;
  if (*device < traces.size()) {
    auto events = read_trace(context, *device, traces[*device]);
    FORESHARD_TRY(events);
    file.snapshot.events = std::move(*events);
  }
  auto segments = read_segments(context, *device, parts->segments);
  FORESHARD_TRY(segments);
  file.snapshot.segments = std::move(*segments);
  auto annotations = read_annotations(context, *device, parts->annotations);
  FORESHARD_TRY(annotations);
  file.snapshot.annotations = std::move(*annotations);
  file.snapshot.settings = read_allocator_settings(context, parts->settings);
  if (file.snapshot.events.empty())
    stats.add("no_recorded_events", Severity::data_loss,
              "the snapshot holds the final state only; record with torch.cuda.memory._record_memory_history()");
  for (const std::uint32_t other : traced)
    if (other != *device)
      stats.add("entry_of_other_device", Severity::info, "trace entries belong to other devices",
                document.items(traces[other]).size());
  file.has_frames = stacks.any();
  file.snapshot.stacks = stacks.take();
  file.stats = stats.take();
  return file;
}

}  // namespace

Result<void> SnapshotContext::spend(std::uint64_t count) {
  if (count > entries_left)
    return fail(ErrorKind::input, "shared lists expand to more entries than a file of this size can hold", name,
                "the file was not written by PyTorch");
  entries_left -= count;
  return {};
}

tl::unexpected<Error> SnapshotContext::fail_at(const std::string& place, std::string what, std::string hint) const {
  return fail(ErrorKind::input, std::move(what), fmt::format("{}, {}", name, place), std::move(hint));
}

Result<SnapshotFile> read_snapshot(const std::string& path, const SnapshotOptions& options) {
  auto source = ByteSource::open(path);
  FORESHARD_TRY(source);
  return read_snapshot(*source, options);
}

Result<SnapshotFile> read_snapshot(ByteSource& source, const SnapshotOptions& options) {
  auto bytes = read_all(source, options.limit);
  FORESHARD_TRY(bytes);
  const Bytes size = bytes->size();
  if (looks_like_json(*bytes)) {
    auto document = read_json_data(*bytes, source.name());
    FORESHARD_TRY(document);
    return read_document(*document, source.name(), size, options);
  }
  // torch.save before zip: protocol 2, then a 10-byte LONG1.
  if (bytes->size() > 14 && bytes->compare(4, kCheckpointMagic.size(), kCheckpointMagic) == 0)
    return fail(ErrorKind::input, "this is a checkpoint written by torch.save, not a memory snapshot", source.name(),
                std::string(kHowToMake));
  auto pickle = read_pickle(std::move(*bytes), source.name());
  FORESHARD_TRY(pickle);
  auto file = read_document(pickle->document, source.name(), size, options);
  if (!file) return file;
  file->pickle_protocol = pickle->protocol;
  if (pickle->trailing_bytes > 0)
    file->stats.push_back(
        {"trailing_bytes", Severity::info, pickle->trailing_bytes, "bytes follow the end of the pickle"});
  return file;
}

}  // namespace foreshard::traces
