// `foreshard tune SOURCE --memory-limit 75GiB`: searches for the fastest settings, and says how to set them.

#include "sim/tune/tune.hpp"

#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/options/fabric_option.hpp"
#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/options/part_options.hpp"
#include "cli/options/setting_options.hpp"
#include "cli/options/source_options.hpp"
#include "cli/reports/counted.hpp"
#include "cli/reports/fingerprint.hpp"
#include "cli/reports/plan_command.hpp"
#include "cli/reports/store_point.hpp"
#include "cli/reports/stored_pictures.hpp"
#include "cli/reports/tune_reason.hpp"
#include "cli/reports/tune_report.hpp"
#include "cli/terminal/early_end.hpp"
#include "cli/terminal/freed_memory.hpp"
#include "cli/verbs/batch_parts.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/digest.hpp"
#include "core/base/suggest.hpp"
#include "core/base/units.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/sweep/wrapped_modules.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Longer than any share of a batch took, with whatever is started with it (srun starts thousands of tasks in less).
constexpr Nanoseconds kWait{60'000'000'000};

struct TuneOptions {
  SourceOptions source;
  SettingOptions settings;
  PartsOptions parts;
  std::optional<Nanoseconds> wait;
  std::optional<Bytes> memory_limit;
  std::optional<Bytes> headroom;
  std::optional<Nanoseconds> time_limit;
  std::uint32_t points = 0;
  unsigned jobs = 0;
  sim::MoveFamilies moves = sim::MoveFamilies::usual();
  std::string lists;
  std::string output;
  std::string front;
  std::string name;
  bool force = false;
  bool json = false;
};

/// "batch,reduce-dtype": lets a search change these, or not.
Result<void> set_families(const std::string& text, bool on, sim::MoveFamilies& moves) {
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    const std::string word = text.substr(from, comma - from);
    const auto family = parse_name<sim::MoveFamily>(word);
    if (!family) {
      const auto& names = EnumNames<sim::MoveFamily>::kNames;
      const auto near = nearest(word, std::vector<std::string_view>(names.begin(), names.end()));
      return fail(ErrorKind::usage, fmt::format("'{}' is nothing that a search changes", word), {},
                  near ? "did you mean '" + *near + "'?" : fmt::format("one of {}", fmt::join(names, ", ")));
    }
    if (sim::MoveFamilies::usual().has(*family) == on)
      return fail(ErrorKind::usage,
                  on ? fmt::format("a search changes '{}' anyway", word)
                     : fmt::format("a search leaves '{}' as it is anyway", word),
                  {}, on ? "leave it out, or --keep it" : "leave it out, or --allow it");
    moves.set(*family, on);
    from = comma + 1;
  }
  return {};
}

Result<void> check_outputs(const TuneOptions& options) {
  if (!options.name.empty() && options.output.empty())
    return fail(ErrorKind::usage, "--name names the run that -o writes", "--name", "leave it out, or give -o RUN");
  if (!options.front.empty() && options.output.empty())
    return fail(ErrorKind::usage, "--front keeps the steps of points beside the run that -o writes", "--front",
                "leave it out, or give -o RUN");
  for (const std::string& path : {options.lists, options.output})
    if (!path.empty()) FORESHARD_TRY(may_write(path, options.force));
  return {};
}

/// Of `--part` and `--parts`.
Result<void> check_parts(const TuneOptions& options) {
  if (options.wait && options.parts.part.empty())
    return fail(ErrorKind::usage, "--wait is how long a part waits for the others", "--wait",
                "leave it out, or give --part");
  if (options.time_limit && !options.parts.folder.empty())
    return fail(ErrorKind::usage, "tasks whose time ends would end at different points", "--time-limit",
                "give --points, where each task ends alike, or leave it out");
  if (!options.parts.part.empty() && !(options.lists.empty() && options.output.empty()))
    return fail(ErrorKind::usage, "a part of a search has no best point", "--part",
                "give --lists and -o where all parts are read, without --part");
  return {};
}

/// The best's prefetch lists as `--prefetch-lists` takes them; "{}" where it has none.
std::string lists_of(const TuneReport& report) {
  for (const auto& [key, value] : setting_options(report.result.best->point.settings))
    if (key == "prefetch_lists") return value + '\n';
  return "{}\n";
}

Result<std::string> fingerprint_of_search(const TuneOptions& options, const traces::Source& source,
                                          sim::WorkloadSource& workloads, const TuneReport& report) {
  const auto machine = machine_digest(machine_named(options.source.machine, source.machine));
  FORESHARD_TRY(machine);
  const auto workload = workloads.at(report.request.start);
  FORESHARD_TRY(workload);
  std::string question = "tune\n";
  const sim::TuneRequest& request = report.request;
  if (request.memory_limit) question += fmt::format("memory limit {}\n", *request.memory_limit);
  if (request.headroom > 0) question += fmt::format("headroom {}\n", request.headroom);
  if (request.points) question += fmt::format("points {}\n", *request.points);
  for (const sim::MoveFamily family : kEnumValues<sim::MoveFamily>)
    if (request.allowed.has(family)) question += fmt::format("{}\n", foreshard::name(family));
  if (!report.fabric.empty()) question += fmt::format("fabric {}\n", report.fabric);
  question += topology_question(report.topology);
  return fingerprint({workload_digest(source, *workload), request.start, *machine, question});
}

/// What is being searched, and in what.
Result<TuneReport> ask(const TuneOptions& options, const traces::Source& source, const sim::MachineProfile& machine) {
  TuneReport report;
  const auto start = options.settings.apply(source.settings);
  FORESHARD_TRY(start);
  FORESHARD_TRY(check_fabric_is_used(options.source.fabric, start->nodes));
  report.source = options.source.source.text;
  report.options = source_words(options.source);
  report.name = source.name;
  report.machine = machine.name;
  report.machine_assumed = machine_assumed(options.source, source);
  report.model_options = source.model_options;
  report.left_out = traces::left_out(source, {});
  report.fabric = fabric_of(options.source, source);
  report.own = source.settings;
  report.lists = options.lists;
  sim::TuneRequest& request = report.request;
  request.start = *start;
  const auto limit = memory_limit_of(options.memory_limit, source.memory_capacity, options.source.machine, machine);
  FORESHARD_TRY(limit);
  request.memory_limit = *limit;
  if (options.memory_limit) {
    const Bytes bytes = **limit;
    report.options += fmt::format("{}--memory-limit {}", report.options.empty() ? "" : " ", size_value(bytes));
  }
  request.headroom = options.headroom.value_or(0);
  request.allowed = options.moves;
  if (options.points > 0) request.points = options.points;
  request.threads = options.jobs == 0 ? sim::hardware_threads() : options.jobs;
  return report;
}

/// What the source itself makes less certain is said of every point.
void doubt_every_point(const traces::Source& source, sim::TuneResult& result) {
  const auto add = [&](sim::TunedPoint& tuned) { add_source_warnings(source, tuned.point); };
  add(result.start);
  for (auto* one : {&result.best, &result.fastest, &result.uniform, &result.greedy, &result.fastest_doubted,
                    &result.fastest_retrying, &result.with_cuda_graph})
    if (*one) add(**one);
  for (sim::TunedPoint& one : result.next) add(one);
}

/// `parts`: of the tasks that share it; none: it is searched here alone.
Result<void> search(const TuneOptions& options, sim::WorkloadSource& workloads, const sim::MachineProfile& machine,
                    std::optional<BatchParts>& parts, Console& console, TuneReport& report) {
  keep_freed_memory();
  Progress progress(console, "points tried");
  const auto begin = Clock::now();
  std::optional<EarlyEnd> early;
  if (!parts) {  // tasks whose search ends elsewhere would wait for one another
    early.emplace();
    report.request.is_over = [&] {
      return kept_signal() != 0 ||
             (options.time_limit && Clock::now() - begin >= std::chrono::nanoseconds(options.time_limit->count));
    };
  }
  if (parts)
    report.request.share = [&](const sim::TuneBatch& batch, const sim::SimulatePlaces& simulate) {
      return parts->points(batch, simulate);
    };
  report.request.points_alone = !options.parts.part.empty();
  report.request.on_progress = [&](const sim::TuneProgress& now) {
    progress.says(
        now.best_ms > 0
            ? fmt::format("{} tried, the best so far {}",
                          counted(static_cast<std::int64_t>(now.tried), "point", "points"), milliseconds(now.best_ms))
            : fmt::format("{} tried, none fits yet", counted(static_cast<std::int64_t>(now.tried), "point", "points")));
    progress.at(now.tried, 0);
  };
  auto result = sim::tune(workloads, machine, report.request);
  report.interrupted = kept_signal() != 0 && result && result->end == sim::TuneEnd::time;
  report.request.is_over = {};
  report.request.share = {};
  report.request.on_progress = {};
  FORESHARD_TRY(result);
  report.result = std::move(*result);
  if (report.result.best) {
    const Settings& settings = report.result.best->point.settings;
    report.code = python_lines(settings, sim::wrapped_modules(workloads, settings));
  }
  return {};
}

/// None: the search is not shared.
Result<std::optional<BatchParts>> parts_of(const TuneOptions& options, const std::optional<sim::Part>& part,
                                           const traces::Source& source, sim::WorkloadSource& workloads,
                                           TuneReport& report, Console& console) {
  if (options.parts.folder.empty()) return std::nullopt;
  auto known = fingerprint_of_search(options, source, workloads, report);
  FORESHARD_TRY(known);
  report.fingerprint = *known;
  auto parts = BatchParts::open(
      {options.parts.folder, part, std::move(*known), options.wait.value_or(kWait), options.force}, console);
  FORESHARD_TRY(parts);
  return std::move(*parts);
}

/// Says which part is there, and where the answer is to be had.
int say_part(const TuneOptions& options, const sim::Part& part, const BatchParts& parts, const TuneReport& report,
             Console& console) {
  const WrittenPart written{part, parts.own_points(), report.result.tried, parts.own_folder()};
  if (options.json)
    print_json(console.out, part_json("tune", written, report.fingerprint));
  else
    console.out << part_words(options.parts, written, "points") << '\n';
  return kDone;
}

void warn(Console& console, const TuneReport& report) {
  std::set<std::string> said;
  const sim::SweepPoint& point = (report.result.best ? *report.result.best : report.result.start).point;
  for (const std::string& warning : point.warnings)
    if (said.insert(warning).second) console.warn((report.result.best ? "the best: " : "as asked for: ") + warning);
}

/// The steps of the front's points, a store each: `point`, and `run` as seen from the folder of -o.
Result<Json> write_front(const TuneOptions& options, PointOutput output, const TuneReport& report,
                         const traces::Source& source, const sim::MachineProfile& machine,
                         sim::WorkloadSource& workloads) {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::create_directories(options.front, failed);
  if (failed)
    return fail(ErrorKind::input, "the folder cannot be made: " + failed.message(), options.front,
                "name another one for --front");
  Json runs = Json::array();
  for (const std::size_t i : report.result.front) {
    output.path = fmt::format("{}/{}.db", options.front, i);
    output.name = fmt::format("point {}", i);
    // Anew: the search left out what ranks nothing.
    sim::SweepPoint point = sim::simulate_point(workloads, machine, {report.request.memory_limit, {}},
                                                report.result.points[i].point.settings);
    add_source_warnings(source, point);
    FORESHARD_TRY(store_point(point, output, machine, workloads));
    const fs::path seen = fs::absolute(output.path).lexically_relative(fs::absolute(options.output).parent_path());
    runs.push_back({{"point", i}, {"run", seen.generic_string()}});
  }
  return runs;
}

Result<void> write_outputs(const TuneOptions& options, const TuneReport& report, const traces::Source& source,
                           const sim::MachineProfile& machine, sim::WorkloadSource& workloads) {
  if (!report.result.best) return {};
  if (!options.lists.empty()) FORESHARD_TRY(write_text(options.lists, lists_of(report), options.force));
  if (options.output.empty()) return {};
  PointOutput output{options.output,
                     options.name,
                     options.force,
                     report.source,
                     report.request.memory_limit,
                     basis_of(source, report.machine_assumed, report.fabric, report.topology)};
  Json runs = Json::array();
  if (!options.front.empty()) {
    auto kept = write_front(options, output, report, source, machine, workloads);
    FORESHARD_TRY(kept);
    runs = std::move(*kept);
  }
  output.results = {{std::string(kTuneResult), tune_json(report)}, {std::string(kFrontRunsResult), std::move(runs)}};
  return store_point(report.result.best->point, output, machine, workloads);
}

Result<int> tune(TuneOptions& options, Console& console) {
  FORESHARD_TRY(check_outputs(options));
  FORESHARD_TRY(check_parts(options));
  const auto part = options.parts.wanted();
  FORESHARD_TRY(part);
  auto source = read_source(options.source, console);
  FORESHARD_TRY(source);
  for (const std::string& note : source->notes) console.note(note);
  Topology topology;
  const auto machine = machine_for(options.source, *source, topology, console);
  FORESHARD_TRY(machine);
  const auto workloads = traces::workloads_of(*source, *machine);
  auto report = ask(options, *source, *machine);
  FORESHARD_TRY(report);
  const Settings& start = report->request.start;
  if (const std::string note = fabric_note(report->fabric, machine->network, start.gpus, start.nodes); !note.empty())
    console.note(note);
  report->topology = std::move(topology);
  for (const std::string& doubt : report->topology.doubts) console.warn(doubt);
  auto parts = parts_of(options, *part, *source, *workloads, *report, console);
  FORESHARD_TRY(parts);
  FORESHARD_TRY(search(options, *workloads, *machine, *parts, console, *report));
  if (*part) return say_part(options, **part, **parts, *report, console);
  doubt_every_point(*source, report->result);
  if (report->result.end != sim::TuneEnd::time) {
    auto known = fingerprint_of_search(options, *source, *workloads, *report);
    FORESHARD_TRY(known);
    report->fingerprint = std::move(*known);
  }
  warn(console, *report);
  if (options.json)
    print_json(console.out, tune_json(*report));
  else
    print_tune(console.out, *report);
  console.out.flush();
  FORESHARD_TRY(write_outputs(options, *report, *source, *machine, *workloads));
  if (kept_signal() != 0) return static_cast<int>(kInterrupted);
  if (report->result.best) return static_cast<int>(kDone);
  console.error(
      only_without_time(*report)
          ? "no setting whose time is known fits\n  hint: plan from the model's configuration, which has the times"
          : "no setting that was tried fits\n  hint: `plan` of the same options says what would, as more ranks do");
  return static_cast<int>(ErrorKind::out_of_memory);
}

}  // namespace

Action add_tune(OptionSet& set) {
  auto options = std::make_shared<TuneOptions>();
  options->source.add_to(set);
  options->source.add_lowering_to(set);
  add_parsed<Bytes>(set, "--memory-limit", options->memory_limit, &parse_bytes,
                    "what the caching allocator may take; default: a stored plan's, else the machine's")
      .type_name("SIZE");
  add_parsed<Bytes>(set, "--headroom", options->headroom, &parse_bytes,
                    "how much of that the peak of reserved memory leaves free; default: 0")
      .type_name("SIZE");
  add_parsed<Nanoseconds>(set, "--time-limit", options->time_limit, &parse_time,
                          "end the search after that time, with the best so far, as Ctrl-C does at once; default: none")
      .type_name("TIME");
  set.add_option("--points", options->points, "end it after so many points, which any machine repeats; default: none")
      .type_name("N")
      .range(1U, 1'000'000U);
  set.add_option("--jobs", options->jobs, "threads; default: every core").type_name("N").range(1U, 1024U);
  options->parts.add_to(set, "points of each batch");
  add_parsed<Nanoseconds>(set, "--wait", options->wait, &parse_time,
                          "how long a part waits for the others' share of a batch before it simulates that itself; "
                          "default: 60s")
      .type_name("TIME");
  TuneOptions& to = *options;
  set.add_text(
         "--allow", [&to](const std::string& text) { return set_families(text, true, to.moves); },
         "what else may be changed: reduce-dtype, optimizer, cuda-graph, batch (against accumulation), release, "
         "alloc-conf")
      .type_name("NAME,…");
  set.add_text(
         "--keep", [&to](const std::string& text) { return set_families(text, false, to.moves); },
         "what stays as it is, of: prefetch, reshard, transport, units, reduce-scatter, mesh, post-optimizer-event, "
         "checkpoint, offload")
      .type_name("NAME,…");
  set.add_option("--lists", options->lists, "write the best's prefetch lists, for --prefetch-lists")
      .type_name("FILE")
      .writes();
  set.add_option("-o,--output", options->output, "write the best's simulated run to a store").type_name("RUN").writes();
  set.add_option("--front", options->front,
                 "write the steps of the points on the front to stores of this folder, which the page of -o shows")
      .type_name("DIR")
      .writes();
  set.add_option("--name", options->name, "name of that run").type_name("NAME");
  set.add_flag("--force", options->force, "write over existing files");
  set.add_flag("--json", options->json, "as JSON");
  options->settings.add_to(set);
  return [options](Console& console) { return tune(*options, console); };
}

}  // namespace foreshard::cli
