// `foreshard sweep SOURCE [ranges]`: predicts every point of a space of options and says which to take.

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/options/fabric_option.hpp"
#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/options/part_options.hpp"
#include "cli/options/progress_file.hpp"
#include "cli/options/range_options.hpp"
#include "cli/options/source_options.hpp"
#include "cli/options/unlike_options.hpp"
#include "cli/reports/fingerprint.hpp"
#include "cli/reports/store_point.hpp"
#include "cli/reports/sweep_report.hpp"
#include "cli/terminal/early_end.hpp"
#include "cli/terminal/freed_memory.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/digest.hpp"
#include "core/base/units.hpp"
#include "core/settings/python_lines.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/machine/address_space.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/sweep/sweep_part.hpp"
#include "sim/sweep/wrapped_modules.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::cli {
namespace {

struct SweepOptions {
  SourceOptions source;
  RangeOptions ranges;
  UnlikeOptions unlike;
  PartsOptions parts;
  std::optional<Bytes> memory_limit;
  unsigned jobs = 0;
  std::string csv;
  std::string progress;
  std::string output;
  std::string name;
  bool force = false;
  bool json = false;
};

Result<void> check_outputs(const SweepOptions& options) {
  if (!options.name.empty() && options.output.empty())
    return fail(ErrorKind::usage, "--name names the run that -o writes", "--name", "leave it out, or give -o RUN");
  for (const std::string& path : {options.csv, options.output})
    if (!path.empty()) FORESHARD_TRY(may_write(path, options.force));
  return options.progress.empty() ? Result<void>() : may_append(options.progress, options.force);
}

/// Warnings of the best point, or of all points together where none is best.
void warn(Console& console, const SweepResult& result) {
  std::set<std::string> said;
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    if (result.best && i != *result.best) continue;
    for (const std::string& warning : result.points[i].warnings)
      if (said.insert(warning).second) console.warn((result.best ? "the best point: " : "") + warning);
  }
}

/// Nothing ran: why, as an exit status. A sweep of which anything fits is done.
Result<int> status_of(const SweepResult& result, Console& console) {
  if (result.best) return static_cast<int>(kDone);
  const auto any = [&](sim::SweepPoint::State state) {
    return std::any_of(result.points.begin(), result.points.end(), [&](const auto& p) { return p.state == state; });
  };
  if (any(sim::SweepPoint::State::out_of_memory)) {
    const std::string within = result.memory_limit ? "no point stays within " + format_bytes(*result.memory_limit)
                                                   : "every point that can run is out of memory";
    console.error(within + "\n  hint: `plan` of a point says what would fit");
    return static_cast<int>(ErrorKind::out_of_memory);
  }
  if (any(sim::SweepPoint::State::deadlock)) {
    console.error("every point that can run deadlocks");
    return static_cast<int>(ErrorKind::deadlock);
  }
  console.error("no point can run; the answer says why");
  return static_cast<int>(ErrorKind::usage);
}

/// A point as a row of the progress file, whose columns tell() names. `doubted`: the source has warnings.
Json progress_row(const SweepResult& result, const sim::SweepPoint& point, bool doubted) {
  Json cells = Json::array();
  // A point whose options contradict each other has no values.
  for (std::size_t i = 0; i < result.ranges.size(); ++i)
    cells.push_back(i < point.values.size() ? Json(point.values[i]) : Json());
  cells.push_back(name(point.state));
  cells.push_back(point.has_time ? Json(point.step_ms) : Json());
  cells.push_back(point.has_time && point.tokens_per_s_per_gpu > 0 ? Json(point.tokens_per_s_per_gpu) : Json());
  cells.push_back(point.peaks.reserved > 0 ? Json(point.peaks.reserved) : Json());
  cells.push_back(name(sim::fits(point)));
  cells.push_back(point.valid && !doubted ? "yes" : "no");
  return cells;
}

/// Lets each point be told in the progress file; `written` says whether that could be begun.
void tell(const SweepOptions& options, const SweepResult& result, const sim::MachineProfile& machine, bool doubted,
          ProgressFile& file, Result<void>& written, sim::SweepRequest& request) {
  const Bytes limit = sim::memory_options(machine, result.memory_limit).capacity;
  request.on_start = [&, limit](std::size_t points) {
    ProgressFile::Head head{result.name + " on " + result.machine, "points", points, {}, limit, options.output};
    for (const Range& range : result.ranges) head.columns.push_back(range.key);
    for (const char* column : {"state", "step_ms", "tokens_per_s_per_gpu", "peak_reserved_bytes", "fits", "valid"})
      head.columns.emplace_back(column);
    written = file.open(options.progress, options.force, head);
  };
  request.on_point = [&, doubted](const sim::SweepPoint& point) { file.row(progress_row(result, point, doubted)); };
}

/// A refusal for what is in a file ("prefetch_lists of …") says in which.
void name_files(SweepResult& result) {
  for (sim::SweepPoint& point : result.points)
    for (std::size_t i = 0; i < point.values.size() && i < result.ranges.size(); ++i) {
      const std::string& key = result.ranges[i].key;
      const auto file = result.files.find({key, point.values[i]});
      if (file != result.files.end() && point.reason.starts_with(key))
        point.reason = file->second + ", " + point.reason;
    }
}

/// Where a larger batch or sequence length than that of the most that fits is no point: how much fits.
Result<void> look_beyond(sim::WorkloadSource& workloads, const sim::MachineProfile& machine, SweepResult& result) {
  if (!result.most || larger_refused(result) != nullptr) return {};
  const Settings& most = result.points[*result.most].settings;
  for (const sim::SizeSetting size : {sim::SizeSetting::batch, sim::SizeSetting::seq}) {
    const Range* range = range_of(result, size);
    if (range == nullptr) continue;
    const std::uint32_t own = *(size == sim::SizeSetting::batch ? most.batch : most.seq);
    const std::vector<std::string>& values = range->values;
    if (std::find(values.begin(), values.end(), std::to_string(own + 1)) != values.end()) continue;  // does not fit
    const sim::LargestFitRequest request{most, result.memory_limit, size, own};
    auto found = sim::find_largest_fit(workloads, machine, request);
    FORESHARD_TRY(found);
    if (found->value == request.most) continue;  // the model has no such size
    result.beyond.push_back(std::move(*found));
  }
  return {};
}

/// Of any point; a number that is none is refused with its point.
std::uint32_t most_nodes(const Settings& base, const std::vector<Range>& ranges) {
  std::uint32_t nodes = base.nodes;
  for (const Range& range : ranges)
    for (const std::string& value : range.values)
      if (range.key == "nodes") nodes = std::max(nodes, parse_count(value).value_or(0));
  return nodes;
}

/// All that is known before a point is simulated.
Result<SweepResult> question(const SweepOptions& options, const traces::Source& source,
                             const sim::MachineProfile& machine, Topology topology, Console& console) {
  SweepResult result;
  const auto limit = memory_limit_of(options.memory_limit, source.memory_capacity, options.source.machine, machine);
  FORESHARD_TRY(limit);
  result.memory_limit = *limit;
  result.source = options.source.source.text;
  result.name = source.name;
  result.machine = machine.name;
  result.machine_assumed = machine_assumed(options.source, source);
  result.model_options = source.model_options;
  result.left_out = traces::left_out(source, options.unlike.given());
  result.fabric = fabric_of(options.source, source);
  result.topology = std::move(topology);
  result.unlike = text_of(options.unlike.given());
  auto given = options.ranges.ranges();
  FORESHARD_TRY(given);
  result.ranges = std::move(given->ranges);
  result.files = std::move(given->files);
  if (!given->repeated.empty())
    console.note(fmt::format("given more than once, and simulated once: {}", fmt::join(given->repeated, ", ")));
  if (result.ranges.empty()) result.ranges = usual_ranges();
  const std::uint32_t nodes = most_nodes(source.settings, result.ranges);
  FORESHARD_TRY(check_fabric_is_used(options.source.fabric, nodes));
  if (const std::string note = fabric_note(result.fabric, machine.network, source.settings.gpus, nodes); !note.empty())
    console.note(note);
  return result;
}

/// Simulates the points, of `part` alone, or takes those that are known. `file` hears of each point, where options name
/// one.
Result<void> run_points(const SweepOptions& options, const traces::Source& source, const sim::MachineProfile& machine,
                        sim::WorkloadSource& workloads, const std::optional<sim::Part>& part, ProgressFile& file,
                        Console& console, SweepResult& result) {
  keep_freed_memory();
  Progress progress(console, "points");
  sim::SweepRequest request;
  request.base = source.settings;
  request.ranges = result.ranges;
  request.memory_limit = result.memory_limit;
  auto differences = options.unlike.read(machine.network);
  FORESHARD_TRY(differences);
  request.differences = std::move(*differences);
  request.threads = options.jobs == 0 ? sim::hardware_threads() : options.jobs;
  request.on_progress = [&](std::size_t done, std::size_t points) { progress.at(done, points); };
  request.part = part.value_or(sim::Part{});
  if (options.parts.joins()) {
    const auto count = count_points(result.ranges);
    FORESHARD_TRY(count);
    auto known = join_parts<sim::SweepPoint>(options.parts.folder, result.fingerprint, *count, sim::parse_sweep_part);
    FORESHARD_TRY(known);
    request.known.assign(known->begin(), known->end());
  }
  if (options.parts.folder.empty())  // a part is whole, or there is none
    request.is_over = [] { return kept_signal() != 0; };
  Result<void> written;
  if (!options.progress.empty()) tell(options, result, machine, !source.warnings.empty(), file, written, request);
  auto points = sim::sweep(workloads, machine, request);
  FORESHARD_TRY(points);
  result.points = std::move(*points);
  if (kept_signal() != 0) {
    result.not_tried = count_points(result.ranges).value_or(0) - result.points.size();
    if (result.not_tried > 0) result.fingerprint.clear();  // which points are there depends on the moment
  }
  return written;
}

/// What follows from the points of all parts.
Result<void> conclude(const traces::Source& source, const sim::MachineProfile& machine, sim::WorkloadSource& workloads,
                      ProgressFile& file, SweepResult& result) {
  name_files(result);
  for (sim::SweepPoint& point : result.points) {
    if (point.state == sim::SweepPoint::State::refused) continue;
    add_source_warnings(source, point);
  }
  result.near = machine.prediction.difference;
  find_best(result);
  if (result.not_tried > 0) result.most.reset();  // larger ones were not tried
  if (result.best) {
    const Settings& settings = result.points[*result.best].settings;
    result.code = python_lines(settings, sim::wrapped_modules(workloads, settings));
  }
  if (kept_signal() == 0) FORESHARD_TRY(look_beyond(workloads, machine, result));
  if (result.best) file.finish(progress_row(result, result.points[*result.best], !source.warnings.empty()));
  return {};
}

/// Writes a part, and says where the answer is to be had.
Result<int> keep_part(const SweepOptions& options, const sim::Part& part, const SweepResult& result, Console& console) {
  const std::size_t points = result.points.size();
  FORESHARD_TRY(write_part(options.parts.folder, part, sim::sweep_part_text(part, result.fingerprint, result.points),
                           options.force));
  if (options.json)
    print_json(console.out, part_json("sweep", written_part(options.parts, part, points), result.fingerprint));
  else
    console.out << part_words(options.parts, written_part(options.parts, part, points), "points") << '\n';
  return static_cast<int>(kDone);
}

/// Of all points together: the source's own settings with the ranges as the question.
Result<void> set_fingerprint(const SweepOptions& options, const traces::Source& source,
                             const sim::MachineProfile& profile, sim::WorkloadSource& workloads, SweepResult& result) {
  const std::string name = machine_named(options.source.machine, source.machine);
  const auto machine = machine_digest(name);
  FORESHARD_TRY(machine);
  const auto workload = workloads.at(source.settings);
  // A model that has no program at its own settings (no batch is given) is its name and what shapes it.
  const std::string inputs = workload ? workload_digest(source, *workload) : digest_of(options.source.source.text);
  std::string question = result.memory_limit ? fmt::format("memory limit {}\n", *result.memory_limit) : "";
  if (!result.fabric.empty()) question += fmt::format("fabric {}\n", result.fabric);
  question += topology_question(result.topology);
  const auto differences = options.unlike.read(profile.network);
  FORESHARD_TRY(differences);
  question += differences_question(*differences);
  for (const Range& range : result.ranges) question += fmt::format("{} {}\n", range.key, fmt::join(range.values, " "));
  result.fingerprint = fingerprint({inputs, source.settings, *machine, question});
  return {};
}

/// Each of them, also where another cannot be written; the last that could not is the error.
Result<void> write_outputs(const SweepOptions& options, const SweepResult& result, const traces::Source& source,
                           const sim::MachineProfile& machine, sim::WorkloadSource& workloads, ProgressFile& progress,
                           Console& console) {
  std::vector<Error> errors;
  const auto keep = [&](const Result<void>& written) {
    if (!written) errors.push_back(written.error());
  };
  if (!options.csv.empty()) keep(write_text(options.csv, sweep_csv(result), options.force));
  if (!options.output.empty() && result.best) {
    auto differences = options.unlike.read(machine.network);
    if (!differences) return tl::unexpected(differences.error());
    const PlanBasis basis =
        basis_of(source, result.machine_assumed, result.fabric, result.topology, options.unlike.given());
    const PointOutput output{options.output,      options.name, options.force,          result.source,
                             result.memory_limit, basis,        std::move(*differences)};
    keep(store_point(result.points[*result.best], output, machine, workloads));
  }
  keep(progress.result());
  for (std::size_t i = 0; i + 1 < errors.size(); ++i) console.error(errors[i].text());
  if (!errors.empty()) return tl::unexpected(errors.back());
  return {};
}

Result<int> sweep(SweepOptions& options, Console& console) {
  FORESHARD_TRY(check_outputs(options));
  const auto part = options.parts.wanted();
  FORESHARD_TRY(part);
  if (*part && (!options.csv.empty() || !options.output.empty()))
    return fail(ErrorKind::usage, "a part of a sweep has no table and no best point", "--part",
                "give --csv and -o where all parts are read, without --part");
  if (*part) FORESHARD_TRY(may_write_part(options.parts.folder, **part, options.force));
  auto source = read_source(options.source, console);
  FORESHARD_TRY(source);
  for (const std::string& note : source->notes) console.note(note);
  Topology topology;
  const auto machine = machine_for(options.source, *source, topology, console);
  FORESHARD_TRY(machine);
  const auto workloads = traces::workloads_of(*source, *machine);
  auto result = question(options, *source, *machine, std::move(topology), console);
  FORESHARD_TRY(result);
  FORESHARD_TRY(set_fingerprint(options, *source, *machine, *workloads, *result));
  ProgressFile progress;
  std::optional<EarlyEnd> early;
  if (options.parts.folder.empty()) early.emplace();
  FORESHARD_TRY(run_points(options, *source, *machine, *workloads, *part, progress, console, *result));
  if (*part) return keep_part(options, **part, *result, console);
  FORESHARD_TRY(conclude(*source, *machine, *workloads, progress, *result));
  for (const std::string& doubt : result->topology.doubts) console.warn(doubt);
  if (result->points.size() == 1 && result->points[0].state == sim::SweepPoint::State::refused)
    return fail(ErrorKind::usage, result->points[0].reason);
  warn(console, *result);
  // Before the files: what a long sweep has found is not lost with one that cannot be written.
  if (options.json)
    print_json(console.out, sweep_json(*result));
  else
    print_sweep(console.out, *result);
  console.out.flush();
  progress.finish();
  if (result->not_tried > 0) {  // what is there of an earlier sweep is not given up for a part of this one
    if (!options.csv.empty() || !options.output.empty()) console.note("interrupted: --csv and -o are not written");
    return static_cast<int>(kInterrupted);
  }
  FORESHARD_TRY(write_outputs(options, *result, *source, *machine, *workloads, progress, console));
  return kept_signal() != 0 ? Result<int>(kInterrupted) : status_of(*result, console);
}

}  // namespace

Action add_sweep(OptionSet& set) {
  auto options = std::make_shared<SweepOptions>();
  options->source.add_to(set);
  options->source.add_lowering_to(set);
  add_parsed<Bytes>(set, "--memory-limit", options->memory_limit, &parse_bytes,
                    "what the caching allocator may take; default: a stored plan's, else the machine's")
      .type_name("SIZE");
  set.add_option("--jobs", options->jobs, "threads; default: every core").type_name("N").range(1U, 1024U);
  set.add_option("--csv", options->csv, "write every point as comma-separated values").type_name("FILE").writes();
  set.add_option("--progress", options->progress, "write each point as it is done, one a line, for serve")
      .type_name("FILE")
      .writes();
  set.add_option("-o,--output", options->output, "write the best point's simulated run to a store")
      .type_name("RUN")
      .writes();
  set.add_option("--name", options->name, "name of that run").type_name("NAME");
  set.add_flag("--force", options->force, "write over existing files");
  set.add_flag("--json", options->json, "as JSON");
  options->unlike.add_to(set);
  options->parts.add_to(set, "points");
  options->ranges.add_to(set);
  return [options](Console& console) { return sweep(*options, console); };
}

}  // namespace foreshard::cli
