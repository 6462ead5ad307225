#include "traces/pytorch/snapshot_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "core/base/check_context.hpp"
#include "core/base/units.hpp"
#include "traces/pytorch/json_data.hpp"
#include "traces/pytorch/pickle.hpp"
#include "traces/pytorch/snapshot_parts.hpp"
#include "traces/pytorch/source_window.hpp"

namespace foreshard::traces {

namespace {

using Severity = ImportStat::Severity;

constexpr std::string_view kHowToMake =
    "write one with torch.cuda.memory._record_memory_history() and torch.cuda.memory._dump_snapshot()";
constexpr std::size_t kLead = 4096;        // blanks before JSON's first bracket end within it
constexpr Bytes kJsonLimit = 2 * kGiB;     // parsed whole, in some four times its size
constexpr std::size_t kMaxDevices = 1024;  // far beyond the GPUs of one host; bounds what a hostile file can list

struct Parts {
  PlainValue segments;
  PlainValue traces;  // kind none where the key is absent
  PlainValue annotations;
  PlainValue settings;
};

constexpr std::array<std::string_view, 6> kTopLevelKeys{"segments",           "device_traces", "external_annotations",
                                                        "allocator_settings", "host_segments", "host_traces"};

bool looks_like_json(std::string_view bytes) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '[');
}

tl::unexpected<Error> foreign_dict(const PlainDocument& document, PlainValue root, const std::string& name) {
  std::vector<std::string> keys;
  constexpr std::size_t kShown = 5;
  const auto entries = document.entries(root);
  for (std::size_t i = 0; i < entries.size() && keys.size() < kShown; i += 2)
    if (const auto key = document.string(entries[i])) keys.emplace_back(key->substr(0, 40));
  if (document.entries(root).size() <= 1000 && document.find(root, "traceEvents"))
    return fail(
        ErrorKind::input, "this is a profiler trace, not a memory snapshot", name,
        fmt::format("foreshard import --trace {0} -o run.db, then foreshard explain run.db --time; of memory and "
                    "plans with the snapshot of the same run: import --snapshot FILE --trace {0}",
                    name));
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

/// Pinned host memory (record_pinned_host_memory, PyTorch 2.14) and keys of later versions: counted, not read.
void note_unread_keys(const PlainDocument& document, StatList& stats) {
  const PlainValue root = document.root();
  const auto length_of = [&](const char* key) {
    const auto value = document.find(root, key);
    return value ? document.items(*value).size() : 0;
  };
  stats.add("host_segments", Severity::info, "segments of pinned host memory are in the snapshot; they are not read",
            length_of("host_segments"));
  if (const auto traces = document.find(root, "host_traces"))
    for (const PlainValue trace : document.items(*traces))
      stats.add("host_trace_entries", Severity::info, "trace entries are of pinned host memory; they are not read",
                std::max<std::size_t>(document.items(trace).size(), trace.kind() == PlainKind::dict ? 1 : 0));
  const auto entries = document.entries(root);
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    const auto key = document.string(entries[i]);
    if (!key || std::find(kTopLevelKeys.begin(), kTopLevelKeys.end(), *key) != kTopLevelKeys.end()) continue;
    stats.add("unknown_snapshot_key", Severity::info,
              fmt::format("keys of the snapshot are not known to this version, first '{}'", key->substr(0, 40)));
  }
}

/// Whether the history lost its beginning: the ring's own word (PyTorch 2.13), or a ring that is just full.
void note_overflow(const SnapshotSettings& settings, std::size_t entries, StatList& stats) {
  constexpr std::size_t kRound = 100'000;  // torchtitan's and verl's max_entries, and most others', are multiples of it
  if (settings.history_overflowed)
    return stats.add("history_overflowed", Severity::data_loss,
                     fmt::format("the history was longer than its ring of {} entries: its beginning is lost; record "
                                 "fewer steps, or with a larger max_entries",
                                 settings.history_entries > 0 ? settings.history_entries : entries));
  const bool full =
      settings.history_entries > 0 ? entries >= settings.history_entries : entries > 0 && entries % kRound == 0;
  if (full)
    stats.add("history_full", Severity::info,
              fmt::format("the history has {} entries, as a full ring has: its beginning may be lost", entries));
}

/// Annotations have no ring. Those before the first entry of a history that lost its beginning mark requests that are
/// not there; FSDP's gathers always make one.
void drop_annotations_before(Snapshot& snapshot, bool overflowed, StatList& stats) {
  if (snapshot.events.empty()) return;
  const std::int64_t first = snapshot.events.front().time_us;
  const auto before = [&](const SnapshotAnnotation& a) { return a.time_us < first; };
  const bool lost =
      overflowed || std::any_of(snapshot.annotations.begin(), snapshot.annotations.end(), [&](const auto& a) {
        return before(a) && !a.start && a.name.starts_with("FSDP::all_gather");
      });
  if (!lost) return;
  const auto dropped = std::erase_if(snapshot.annotations, before);
  stats.add("annotations_without_history", Severity::info,
            "annotations are older than the first recorded entry; they are left out", dropped);
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

/// Whether a device's history has more than the marks that every device gets when a snapshot is looked at
/// (torch.cuda.memory_snapshot, CUDACachingAllocator's snapshot()).
bool records_something(const PlainDocument& document, PlainValue trace) {
  const auto items = document.items(trace);
  return std::any_of(items.begin(), items.end(), [&](PlainValue entry) {
    constexpr std::size_t kMaxKeys = 256;
    if (document.entries(entry).size() > 2 * kMaxKeys) return true;
    const auto action = document.find(entry, "action");
    return !action || document.string(*action) != "snapshot";
  });
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
  std::set<std::uint32_t> all = devices_with_segments(document, parts->segments);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const auto device = static_cast<std::uint32_t>(i);
    if (!document.items(traces[i]).empty()) all.insert(device);
    if (records_something(document, traces[i])) traced.insert(device);
  }
  StatList stats;
  note_unread_keys(document, stats);
  if (all.empty()) {
    const std::vector<ImportStat> seen = stats.take();
    const bool host = std::any_of(seen.begin(), seen.end(), [](const auto& s) { return s.name.starts_with("host_"); });
    return fail(ErrorKind::input,
                host ? "the snapshot has pinned host memory alone, and nothing of a GPU"
                     : "the snapshot is empty: no segments and no recorded allocations",
                name,
                host ? "record with record_cuda=True"
                     : "call torch.cuda.memory._record_memory_history() before the model is built");
  }
  auto device = choose_device(options, traced, all, name);
  FORESHARD_TRY(device);

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
  note_overflow(file.snapshot.settings, file.snapshot.events.size(), stats);
  drop_annotations_before(file.snapshot, file.snapshot.settings.history_overflowed, stats);
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
  const CheckContext context = reading(source.name());
  SourceWindow window(source, options.limit);
  const auto first = window.peek(kLead);
  FORESHARD_TRY(first);
  if (looks_like_json(*first)) {
    const auto text = window.peek(kJsonLimit + 1);
    FORESHARD_TRY(text);
    if (text->size() > kJsonLimit)
      return fail(ErrorKind::input, fmt::format("the JSON is longer than {}", format_bytes(kJsonLimit)), source.name(),
                  "give the pickle that torch.cuda.memory._dump_snapshot() writes");
    auto document = read_json_data(*text, source.name());
    FORESHARD_TRY(document);
    return read_document(*document, source.name(), text->size(), options);
  }
  auto pickle = read_pickle(window);
  FORESHARD_TRY(pickle);
  auto file = read_document(pickle->document, source.name(), source.position(), options);
  if (!file) return file;
  file->pickle_protocol = pickle->protocol;
  if (pickle->trailing_bytes > 0)
    file->stats.push_back(
        {"trailing_bytes", Severity::info, pickle->trailing_bytes, "bytes follow the end of the pickle"});
  return file;
}

}  // namespace foreshard::traces
