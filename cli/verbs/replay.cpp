// `foreshard replay SNAPSHOT`: its requests through the allocator, to verify or to ask what if.

#include "core/allocator/replay.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/terminal/output.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/units.hpp"
#include "core/settings/pytorch_version.hpp"
#include "sim/machine/address_space.hpp"
#include "traces/import/recorded_steps.hpp"
#include "traces/import/snapshot_ranges.hpp"
#include "traces/import/symmetric_pools.hpp"
#include "traces/pytorch/about.hpp"
#include "traces/pytorch/snapshot_file.hpp"

namespace foreshard::cli {
namespace {

struct ReplayRequest {
  std::string snapshot;
  std::string about;
  std::optional<std::string> alloc_conf;
  std::optional<Bytes> memory_limit;
  std::optional<double> memory_fraction;
  std::optional<Bytes> device_memory;
  std::optional<std::uint32_t> device;
  std::string pytorch{kCheckedPyTorch};
  bool retries = false;
  bool json = false;
};

/// Memory of a device that is not named: more than any has, so that nothing runs out.
constexpr Bytes kAmple = Bytes{1} << 40;

/// What both modes tell, in the names of torch.cuda.memory_stats.
struct Outcome {
  std::uint64_t events = 0;
  std::uint64_t mismatches = 0;
  std::string first_mismatch;
  MemoryPeaks peaks;  ///< largest_of() its steps
  AllocatorStatistics statistics;
  std::vector<AllocatorStatistics> steps;
};

MemoryPeaks peaks_of(const AllocatorStatistics& s) {
  const auto bytes = [](std::int64_t value) { return static_cast<Bytes>(value < 0 ? 0 : value); };
  return {bytes(s.all.requested_bytes.peak), bytes(s.all.allocated_bytes.peak), bytes(s.all.active_bytes.peak),
          bytes(s.all.reserved_bytes.peak)};
}

/// Each the largest of any step, so that a what-if is of all that was recorded; `whole`: where no step was told apart.
MemoryPeaks largest_of(const std::vector<AllocatorStatistics>& steps, const MemoryPeaks& whole) {
  if (steps.empty()) return whole;
  MemoryPeaks out;
  for (const AllocatorStatistics& step : steps) {
    const MemoryPeaks peaks = peaks_of(step);
    for (const auto member :
         {&MemoryPeaks::requested, &MemoryPeaks::allocated, &MemoryPeaks::active, &MemoryPeaks::reserved})
      out.*member = std::max(out.*member, peaks.*member);
  }
  return out;
}

/// "largest peaks of 8 steps".
std::string peaks_title(std::size_t steps) {
  if (steps == 0) return "peaks of the recording";
  return steps == 1 ? "peaks of its step" : fmt::format("largest peaks of its {} steps", steps);
}

void add_peaks(Json& json, const MemoryPeaks& peaks) {
  json["peak_requested_bytes"] = peaks.requested;
  json["peak_allocated_bytes"] = peaks.allocated;
  json["peak_active_bytes"] = peaks.active;
  json["peak_reserved_bytes"] = peaks.reserved;
}

void add_statistics(Json& json, const AllocatorStatistics& statistics) {
  json["reserved_bytes"] = statistics.all.reserved_bytes.current;
  json["allocated_bytes"] = statistics.all.allocated_bytes.current;
  json["inactive_split_bytes"] = statistics.all.inactive_split_bytes.current;
  json["num_alloc_retries"] = statistics.num_alloc_retries;
  json["num_ooms"] = statistics.num_ooms;
  json["num_device_alloc"] = statistics.num_device_alloc;
  json["num_device_free"] = statistics.num_device_free;
}

Json as_json(const ReplayRequest& options, const Outcome& outcome, const ReplayReport& recorded,
             const WhatIfReport* what_if) {
  Json json = json_result("replay");
  json["mode"] = what_if == nullptr ? "verify" : "what-if";
  json["snapshot"] = options.snapshot;
  json["events"] = outcome.events;
  json["mismatches"] = outcome.mismatches;
  json["first_mismatch"] = outcome.first_mismatch.empty() ? Json(nullptr) : Json(outcome.first_mismatch);
  add_peaks(json, outcome.peaks);
  add_statistics(json, outcome.statistics);
  json["steps"] = Json::array();
  for (const AllocatorStatistics& step : outcome.steps) {
    Json entry = Json::object();
    add_peaks(entry, peaks_of(step));
    entry["num_alloc_retries"] = step.num_alloc_retries;
    json["steps"].push_back(std::move(entry));
  }
  if (what_if == nullptr) {
    json["adopted_segments"] = recorded.adopted_segments;
    json["adopted_blocks"] = recorded.adopted_blocks;
    json["unexplained_releases"] = recorded.unexplained_releases;
    json["memory_limit"] = nullptr;
    if (recorded.limit) {
      json["memory_limit"] = Json::object();
      json["memory_limit"]["least_bytes"] = recorded.limit->least;
      json["memory_limit"]["below_bytes"] = recorded.limit->below;
    }
    return json;
  }
  json["out_of_memory"] = what_if->failed_allocs > 0;
  json["failed_allocs"] = what_if->failed_allocs;
  json["recorded"] = Json::object();
  add_peaks(json["recorded"], largest_of(recorded.steps, recorded.peaks));
  return json;
}

std::string with_exact(Bytes bytes) {
  return fmt::format("{} ({})", format_bytes_fixed(bytes), exact_bytes(bytes));
}

void print_verify(Console& console, const Outcome& outcome, const ReplayReport& report) {
  Table table({{""}, {"", Table::Align::right}});
  table.row({"entries compared", exact_bytes(outcome.events)});
  table.row({"mismatches", exact_bytes(outcome.mismatches)});
  if (report.adopted_segments > 0)
    table.row({"before recording began",
               fmt::format("{} segments, {} blocks", report.adopted_segments, report.adopted_blocks)});
  if (report.limit)
    table.row({"memory limit",
               fmt::format("{} to {}", format_bytes(report.limit->least), format_bytes(report.limit->below))});
  table.row({peaks_title(outcome.steps.size())});
  table.row({"  requested", with_exact(outcome.peaks.requested)});
  table.row({"  allocated", with_exact(outcome.peaks.allocated)});
  table.row({"  active", with_exact(outcome.peaks.active)});
  table.row({"  reserved", with_exact(outcome.peaks.reserved)});
  table.row({"allocation retries", std::to_string(outcome.statistics.num_alloc_retries)});
  table.print(console.out);
  if (outcome.mismatches > 0) console.out << "first mismatch: " << outcome.first_mismatch << '\n';
}

void print_what_if(Console& console, const Outcome& outcome, const ReplayReport& recorded) {
  Table table({{peaks_title(outcome.steps.size())},
               {"recorded", Table::Align::right},
               {"asked", Table::Align::right},
               {"change", Table::Align::right}});
  const auto row = [&](const char* name, Bytes before, Bytes after) {
    table.row({name, format_bytes_fixed(before), format_bytes_fixed(after),
               before == after ? "" : change(static_cast<double>(before), static_cast<double>(after))});
  };
  const MemoryPeaks before = largest_of(recorded.steps, recorded.peaks);
  row("requested", before.requested, outcome.peaks.requested);
  row("allocated", before.allocated, outcome.peaks.allocated);
  row("active", before.active, outcome.peaks.active);
  row("reserved", before.reserved, outcome.peaks.reserved);
  table.row({"allocation retries", std::to_string(recorded.statistics.num_alloc_retries),
             std::to_string(outcome.statistics.num_alloc_retries)});
  table.print(console.out);
}

/// Steps whose peaks are told apart; none where the snapshot records no training step.
std::vector<std::size_t> step_starts(const Snapshot& snapshot) {
  const auto ranges = traces::snapshot_ranges(snapshot);
  const auto hooks = traces::find_hooks(ranges, traces::units_named(ranges));
  if (!hooks) return {};
  std::vector<Nanoseconds> begins;
  for (const StepRecord& step : traces::step_records(*hooks, Recording::snapshot)) begins.push_back(step.start);
  return traces::events_at(snapshot, begins);
}

/// The driver's addresses as recorded, for as long as the what-if asks for the same segments.
sim::SimMemoryOptions memory_for(const Snapshot& snapshot, std::optional<Bytes> limit) {
  sim::SimMemoryOptions memory;
  memory.total = memory.capacity = limit.value_or(kAmple);
  for (const AllocatorEvent& event : snapshot.events) {
    if (event.action != AllocatorAction::segment_alloc) continue;
    memory.recorded_addresses.push_back(event.address);
    memory.recorded_sizes.push_back(event.size);
  }
  return memory;
}

Result<WhatIfReport> ask_what_if(const ReplayRequest& options, const Snapshot& snapshot,
                                 const ReplayOptions& replay_options, const ReplayReport& recorded) {
  const auto config = options.alloc_conf ? parse_alloc_conf(*options.alloc_conf, options.pytorch)
                                         : recorded_config(snapshot.settings, options.pytorch);
  FORESHARD_TRY(config);
  sim::SimMemory memory(memory_for(snapshot, options.memory_limit));
  ReplayOptions asked = replay_options;
  // The recorded limit holds on, unless another is asked for.
  if (recorded.limit && !options.memory_limit && config->per_process_memory_fraction >= 1)
    asked.what_if_limit = recorded.limit->below - 1;
  return what_if(snapshot, asked, *config, memory, recorded.empty_caches);
}

/// The allocator's rules are those of the about file's PyTorch, where there is one, and its settings say which pools
/// are symmetric memory's.
Result<ReplayOptions> replay_options_of(ReplayRequest& options, const Snapshot& snapshot) {
  ReplayOptions out;
  if (options.about.empty()) {
    out.pools = traces::symmetric_pools(snapshot, options.pytorch);
  } else {
    const auto about = traces::read_about(options.about);
    FORESHARD_TRY(about);
    options.pytorch = about->settings.pytorch;
    out.pools = traces::symmetric_pools(snapshot, about->settings);
  }
  out.pytorch = options.pytorch;
  out.step_starts = step_starts(snapshot);
  out.releases_are_retries = options.retries;
  out.memory_fraction = options.memory_fraction;
  out.total_memory = options.device_memory.value_or(0);
  return out;
}

void warn_of(Console& console, const traces::SnapshotFile& file, const ReplayReport& report) {
  for (const ImportStat& stat : file.stats)
    if (stat.severity != ImportStat::Severity::info) console.warn(fmt::format("{} ({} times)", stat.text, stat.count));
  if (report.limit_contradicts)
    console.warn(
        "no memory limit explains all that was released and refused: it changed while recording, or memory "
        "outside PyTorch did");
  if (report.unexplained_releases > 0)
    console.warn(
        fmt::format("{} releases of cached memory may have been empty_cache() or retries of an allocation; "
                    "taken for the former (--releases-are-retries for the latter)",
                    report.unexplained_releases));
}

Result<int> replay(ReplayRequest options, Console& console) {
  std::optional<Progress> progress(std::in_place, console, "reading " + options.snapshot);
  const auto file = traces::read_snapshot(options.snapshot, {.device = options.device});
  FORESHARD_TRY(file);
  progress.emplace(console, "replaying");
  const auto replay_options = replay_options_of(options, file->snapshot);
  FORESHARD_TRY(replay_options);
  const auto recorded = verify(file->snapshot, *replay_options);
  if (!recorded) return tl::unexpected(in_file(recorded.error(), options.snapshot));
  const auto config = recorded_config(file->snapshot.settings, options.pytorch);
  if (options.device_memory && !options.memory_fraction && config && config->per_process_memory_fraction >= 1)
    console.warn("--device-memory has no effect without --memory-fraction: the limit is found from the recording");
  Outcome outcome{recorded->events,     recorded->mismatches, recorded->first_mismatch, {},
                  recorded->statistics, recorded->steps};
  outcome.peaks = largest_of(recorded->steps, recorded->peaks);
  std::optional<WhatIfReport> asked;
  if (options.alloc_conf || options.memory_limit) {
    auto answer = ask_what_if(options, file->snapshot, *replay_options, *recorded);
    if (!answer && answer.error().kind == ErrorKind::usage) return tl::unexpected(answer.error());
    if (!answer) return tl::unexpected(in_file(answer.error(), options.snapshot));
    asked = std::move(*answer);
    outcome.peaks = largest_of(asked->steps, asked->peaks);
    outcome.statistics = asked->statistics;
    outcome.steps = asked->steps;
  }
  progress.reset();
  warn_of(console, *file, *recorded);
  if (options.json) {
    print_json(console.out, as_json(options, outcome, *recorded, asked ? &*asked : nullptr));
  } else if (asked) {
    print_what_if(console, outcome, *recorded);
  } else {
    print_verify(console, outcome, *recorded);
  }
  if (asked && asked->failed_allocs > 0) {
    console.warn(fmt::format("out of memory: {} allocations failed, the first of {} bytes at entry {}",
                             asked->failed_allocs, asked->first_failure ? asked->first_failure->requested : 0,
                             asked->first_failure_event));
    return static_cast<int>(ErrorKind::out_of_memory);
  }
  if (asked || outcome.mismatches == 0) return kDone;
  if (options.json)
    console.warn(fmt::format("{}: {} of {} entries differ from the recording, first: {}", options.snapshot,
                             outcome.mismatches, outcome.events, outcome.first_mismatch));
  return kDiffers;
}

}  // namespace

Action add_replay(OptionSet& set) {
  auto options = std::make_shared<ReplayRequest>();
  set.add_option("snapshot", options->snapshot, "a memory snapshot (.pickle or JSON, plain, .gz or .xz)")
      .required()
      .type_name("SNAPSHOT");
  set.add_option("--about", options->about,
                 "the about file beside it: says which PyTorch's rules hold, and what gathers through symmetric memory")
      .type_name("FILE");
  set.add_option("--alloc-conf", options->alloc_conf, "what if PYTORCH_ALLOC_CONF had been this")
      .type_name("KEY:VALUE,…");
  add_parsed<Bytes>(set, "--memory-limit", options->memory_limit, parse_bytes, "what if the GPU had this much memory")
      .type_name("SIZE");
  set.add_option("--memory-fraction", options->memory_fraction,
                 "set_per_process_memory_fraction while recording, with --device-memory; default: the limit is found "
                 "from what was released and refused")
      .type_name("F")
      .range(0.0, 1.0);
  add_parsed<Bytes>(set, "--device-memory", options->device_memory, parse_bytes,
                    "the GPU's memory while recording (torch: total_memory)")
      .type_name("SIZE");
  set.add_option("--device", options->device, "the GPU, where the snapshot has several").type_name("N");
  set.add_option("--pytorch", options->pytorch,
                 fmt::format("the PyTorch version whose rules are followed; default {}", kCheckedPyTorch))
      .type_name("VERSION");
  set.add_flag("--releases-are-retries", options->retries,
               "a release of cached memory that nothing explains was an allocation's retry, not empty_cache()");
  set.add_flag("--json", options->json, "as JSON");
  return [options](Console& console) { return replay(*options, console); };
}

}  // namespace foreshard::cli
