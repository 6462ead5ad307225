// `device_traces` and `external_annotations` of a snapshot.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "traces/pytorch/record_reader.hpp"
#include "traces/pytorch/snapshot_parts.hpp"

namespace foreshard::traces {

namespace {

using Severity = ImportStat::Severity;

// PyTorch 2.11, torch/csrc/cuda/Module.cpp, THCPModule_memorySnapshot; `pool_id` from 2.13, `category` from
// torch.profiler's synthesised snapshots (torch/cuda/_memory_viz.py).
enum EntryKey : std::size_t {
  kAction,
  kAddr,
  kDeviceFree,
  kSize,
  kEntryStream,
  kTime,
  kContext,
  kMetadata,
  kEntryPool,
  kEntryFrames,
  kCategory
};
constexpr std::array<std::string_view, 11> kEntryKeys{"action",  "addr",    "device_free",     "size",
                                                      "stream",  "time_us", "compile_context", "user_metadata",
                                                      "pool_id", "frames",  "category"};
enum AnnotationKey : std::size_t { kStage, kName, kAnnotationDevice, kAnnotationTime };
constexpr std::array<std::string_view, 4> kAnnotationKeys{"stage", "name", "device", "time_us"};

/// Keeps differences in nanoseconds within 64 bits, as parse_microseconds() does for traces.
constexpr std::int64_t kMaxTime = 4'000'000'000'000'000;
constexpr bool is_time(std::int64_t us) {
  return us >= -kMaxTime && us <= kMaxTime;
}

AllocatorAction parse_action(std::string_view text) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(AllocatorAction::unknown); ++i)
    if (kAllocatorActionNames[i] == text) return static_cast<AllocatorAction>(i);
  return AllocatorAction::unknown;
}

class TraceReader {
 public:
  TraceReader(SnapshotContext& context, std::size_t device)
      : context_(context), device_(device), record_(context.document, kEntryKeys) {}

  Result<AllocatorEvent> entry(std::size_t index, PlainValue value) {
    index_ = index;
    if (!record_.read(value)) return bad(fmt::format("is {}, not a trace entry", describe(value.kind())));
    const auto action = record_.at(kAction);
    const auto name = action ? context_.document.string(*action) : std::nullopt;
    if (!name) return bad("has no text 'action'");
    AllocatorEvent event;
    event.action = parse_action(*name);
    if (event.action == AllocatorAction::unknown) {
      context_.stats.add("unknown_action", Severity::info,
                         fmt::format("trace entries have an action that this version does not know, first '{}'; "
                                     "they are kept and not replayed",
                                     name->substr(0, 40)));
    }
    // `oom` carries the driver's free bytes where the others carry an address; `snapshot` has address 0; what an
    // unknown action carries is not known.
    const bool is_known = event.action != AllocatorAction::unknown;
    const bool needs_address =
        is_known && event.action != AllocatorAction::oom && event.action != AllocatorAction::snapshot;
    const EntryKey address = event.action == AllocatorAction::oom && record_.at(kDeviceFree) ? kDeviceFree : kAddr;
    FORESHARD_TRY(number(address, event.address, needs_address));
    FORESHARD_TRY(number(kSize, event.size, is_known));
    if (static_cast<std::int64_t>(event.size) < 0) return bad(fmt::format("has a 'size' of {}", event.size));
    FORESHARD_TRY(number(kEntryStream, event.stream, needs_address));
    FORESHARD_TRY(time(event));
    if (const auto frames = record_.at(kEntryFrames)) event.stack = context_.stacks.read(*frames);
    return event;
  }

  void finish() { record_.report_unknown(context_.stats, "unknown_entry_key", "trace entries"); }

 private:
  tl::unexpected<Error> bad(const std::string& what) const {
    return context_.fail_at(fmt::format("device_traces[{}][{}]", device_, index_), "the entry " + what);
  }

  static std::string not_taken(PlainKind kind) {
    const bool wide = kind == PlainKind::integer || kind == PlainKind::wide_integer;
    return wide ? "an integer of more than 63 bits" : fmt::format("{}, not an integer", describe(kind));
  }

  Result<void> number(EntryKey key, std::uint64_t& out, bool required) const {
    const auto value = record_.at(key);
    if (!value) {
      if (required) return bad(fmt::format("has no '{}'", kEntryKeys[key]));
      return {};
    }
    const auto read = context_.document.uint64(*value);
    if (!read) return bad(fmt::format("has a '{}' that is {}", kEntryKeys[key], not_taken(value->kind())));
    out = *read;
    return {};
  }

  // Entries of synthesised snapshots have no time: they take the time of the entry before.
  Result<void> time(AllocatorEvent& event) {
    event.time_us = last_time_;
    const auto value = record_.at(kTime);
    if (!value) {
      context_.stats.add("missing_time", Severity::data_loss,
                         "trace entries have no time; each takes the time of the entry before it");
      return {};
    }
    const auto read = context_.document.int64(*value);
    if (!read) return bad(fmt::format("has a 'time_us' that is {}", not_taken(value->kind())));
    if (!is_time(*read)) return bad(fmt::format("has a 'time_us' of {}, which is no time since 1970", *read));
    event.time_us = last_time_ = *read;
    return {};
  }

  SnapshotContext& context_;
  std::size_t device_;
  RecordReader record_;
  std::size_t index_ = 0;
  std::int64_t last_time_ = 0;
};

/// The list is in the order in which the allocator did it, so a clock that went back was set. Either what comes behind
/// takes the latest time so far, or what came before takes the earliest time to come: whichever changes fewer entries,
/// a clock that was set back or one entry far ahead.
void order_times(std::vector<AllocatorEvent>& events, StatList& stats) {
  std::vector<std::int64_t> latest;                   // so far
  std::vector<std::int64_t> earliest(events.size());  // from here on
  for (const AllocatorEvent& event : events)
    latest.push_back(latest.empty() ? event.time_us : std::max(latest.back(), event.time_us));
  for (std::size_t i = events.size(); i-- > 0;)
    earliest[i] = i + 1 == events.size() ? events[i].time_us : std::min(earliest[i + 1], events[i].time_us);
  const auto changed = [&](const std::vector<std::int64_t>& times) {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < events.size(); ++i) count += events[i].time_us != times[i] ? 1 : 0;
    return count;
  };
  const std::uint64_t behind = changed(latest);
  const std::uint64_t before = changed(earliest);
  if (behind == 0) return;
  const std::vector<std::int64_t>& times = before < behind ? earliest : latest;
  for (std::size_t i = 0; i < events.size(); ++i) events[i].time_us = times[i];
  stats.add("time_decreased", Severity::data_loss,
            "trace entries are earlier than an entry before them, as if the clock had been set; the fewest that must "
            "take a neighbour's time do",
            std::min(before, behind));
}

}  // namespace

Result<std::vector<AllocatorEvent>> read_trace(SnapshotContext& context, std::size_t device, PlainValue list) {
  const std::span<const PlainValue> entries = context.document.items(list);
  FORESHARD_TRY(context.spend(entries.size()));
  std::vector<AllocatorEvent> events;
  events.reserve(entries.size());
  TraceReader reader(context, device);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto event = reader.entry(i, entries[i]);
    FORESHARD_TRY(event);
    events.push_back(*event);
  }
  reader.finish();
  order_times(events, context.stats);
  return events;
}

Result<std::vector<SnapshotAnnotation>> read_annotations(SnapshotContext& context, std::uint32_t device,
                                                         PlainValue list) {
  const std::span<const PlainValue> entries = context.document.items(list);
  FORESHARD_TRY(context.spend(entries.size()));
  std::vector<SnapshotAnnotation> annotations;
  RecordReader record(context.document, kAnnotationKeys);
  const PlainDocument& document = context.document;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool is_dict = record.read(entries[i]);
    const auto stage = is_dict && record.at(kStage) ? document.string(*record.at(kStage)) : std::nullopt;
    const auto name = is_dict && record.at(kName) ? document.string(*record.at(kName)) : std::nullopt;
    const auto time =
        is_dict && record.at(kAnnotationTime) ? document.int64(*record.at(kAnnotationTime)) : std::nullopt;
    const std::int64_t at = time.value_or(0);
    if (!stage || !name || !time || !is_time(at) || (*stage != "START" && *stage != "END"))
      return context.fail_at(fmt::format("external_annotations[{}]", i),
                             "the annotation needs a 'stage' of START or END, a 'name' and a 'time_us'");
    const auto on_device = record.at(kAnnotationDevice) ? document.uint64(*record.at(kAnnotationDevice))
                                                        : std::optional<std::uint64_t>{device};
    if (on_device != device) {
      context.stats.add("annotation_of_other_device", Severity::info, "annotations belong to other devices");
      continue;
    }
    annotations.push_back({*stage == "START", std::string(*name), device, at});
  }
  record.report_unknown(context.stats, "unknown_annotation_key", "annotations");
  return annotations;
}

}  // namespace foreshard::traces
