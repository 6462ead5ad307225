// `foreshard explain RUN`: where the memory went, what holds it, and what would give it back; with --time the same of
// the step's time.

#include <fmt/core.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/options/newest_store.hpp"
#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/options/source_options.hpp"
#include "cli/reports/fingerprint.hpp"
#include "cli/reports/growth_report.hpp"
#include "cli/reports/no_remedies.hpp"
#include "cli/reports/straggler_report.hpp"
#include "cli/terminal/printable.hpp"
#include "cli/terminal/version.hpp"
#include "cli/verbs/explain_remedies.hpp"
#include "cli/verbs/explain_time.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/units.hpp"
#include "core/straggler/straggler_text.hpp"
#include "sim/machine/profile.hpp"
#include "traces/import/import.hpp"
#include "traces/store/store.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::cli {
namespace {

constexpr std::uint32_t kBlocks = 10;
constexpr std::uint32_t kSeries = 200;

struct ExplainOptions {
  traces::ImportRequest files;  ///< `snapshot` is RUN, where that is one
  std::string run;
  std::string step;
  std::optional<std::string> at;  ///< peak, or a time; none: peak
  std::string machine;
  std::optional<Bytes> memory_limit;
  std::optional<std::uint32_t> blocks;
  std::optional<std::uint32_t> series;
  bool no_remedies = false;
  bool time = false;
  bool growth = false;
  bool detail = false;
  std::string picture;
  bool force = false;
  bool json = false;
};

struct Loaded {
  Run run;
  std::shared_ptr<const Workload> workload;
  std::string no_workload;  ///< why there is none
};

Result<Loaded> load_store(const ExplainOptions& options, const Console& console) {
  if (!options.files.trace.empty() || !options.files.about.empty() || options.files.device)
    return fail(ErrorKind::usage, "--trace, --about and --device belong to a snapshot file", options.run,
                "a run store has all of that in it: import it again with them");
  auto run = traces::read_run(options.run, {console.unverified});
  FORESHARD_TRY(run);
  Loaded loaded{std::move(*run), nullptr, "the store holds no workload: import says why"};
  if (loaded.run.workload_json.empty()) return loaded;
  auto workload = traces::stored_workload(loaded.run.workload_json, loaded.run.info.kind == RunKind::executed,
                                          options.run + " (workload)");
  FORESHARD_TRY(workload);
  loaded.workload = std::make_shared<const Workload>(std::move(*workload));
  return loaded;
}

Result<Loaded> load_snapshot(ExplainOptions& options, Console& console) {
  options.files.snapshot = options.run;
  options.files.version = version_number();
  std::optional<Progress> progress;
  options.files.on_stage = [&](std::string_view what) { progress.emplace(console, std::string(what)); };
  auto imported = traces::import_recording(options.files);
  FORESHARD_TRY(imported);
  std::string why = "the snapshot does not describe the step: give --about";
  for (const ImportStat& stat : imported->run.import_stats)
    if (stat.name == "no_workload") why = stat.text;
  Loaded loaded{std::move(imported->run), nullptr, std::move(why)};
  if (imported->workload) loaded.workload = std::make_shared<const Workload>(std::move(*imported->workload));
  return loaded;
}

void report_oddities(Console& console, const Loaded& loaded, const Explanation& e) {
  for (const std::string& warning : loaded.run.info.warnings) console.warn(warning);
  for (const ImportStat& stat : loaded.run.import_stats)
    if (stat.severity != ImportStat::Severity::info)
      console.warn(fmt::format("{}: {} ({} times)", stat.name, stat.text, stat.count));
  if (e.odd_events > 0)
    console.warn(fmt::format("{} allocator entries contradict the others and were passed over", e.odd_events));
}

Result<ExplainRequest> request_of(const ExplainOptions& options) {
  ExplainRequest request;
  request.largest = options.blocks.value_or(kBlocks);
  if (options.step == "all") {
    request.whole_run = true;
  } else if (!options.step.empty()) {
    const auto step = parse_count(options.step);
    if (!step || *step > INT32_MAX)
      return fail(ErrorKind::usage, fmt::format("'{}' is no step", options.step), "--step", "give a number, or all");
    request.step = static_cast<std::int32_t>(*step);
  }
  if (options.at && *options.at != "peak") {
    const auto at = parse_time(*options.at);
    if (!at) return fail(ErrorKind::usage, at.error().what, "--at", "give peak, or a time after the step's begin");
    request.at = *at;
  }
  return request;
}

Result<void> simulate(const ExplainOptions& options, const Loaded& loaded, Console& console, ExplainReport& report) {
  if (options.no_remedies || !loaded.workload) {
    report.no_remedies = options.no_remedies ? kNoRemedies : loaded.no_workload;
    return {};
  }
  const RemedyOptions wanted{options.machine, options.memory_limit};
  report.drawn = plan_of_drawn(loaded.workload, wanted, loaded.run, console);
  return add_remedies(loaded.workload, wanted, console, report);
}

/// --growth is of the whole record as it is.
Result<void> check_growth(const ExplainOptions& options) {
  if (!options.growth) return {};
  const auto refuse = [](const char* option) {
    return fail(ErrorKind::usage, "--growth explains the whole record, step by step, and simulates nothing", option,
                fmt::format("leave out {} or --growth", option));
  };
  if (options.time) return refuse("--time");
  if (!options.step.empty()) return refuse("--step");
  if (options.at) return refuse("--at");
  if (options.blocks) return refuse("--blocks");
  if (options.series) return refuse("--series");
  if (options.memory_limit) return refuse("--memory-limit");
  if (!options.machine.empty()) return refuse("--machine");
  return {};
}

/// What belongs to memory alone, or to time alone.
Result<void> check_options(const ExplainOptions& options) {
  FORESHARD_TRY(check_growth(options));
  if (!options.picture.empty() && !options.time)
    return fail(ErrorKind::usage, "the picture is of the time", "-o", "add --time; of memory: foreshard view");
  if (!options.picture.empty() && !options.picture.ends_with(".svg"))
    return fail(ErrorKind::usage, "the picture is written as .svg", options.picture, "name the output x.svg");
  if (!options.picture.empty()) FORESHARD_TRY(may_write(options.picture, options.force));
  if (!options.time && options.detail)
    return fail(ErrorKind::usage, "--detail belongs to --time", "--detail", "add --time, or leave it out");
  if (options.time && options.at)
    return fail(ErrorKind::usage, "--at is a moment of the memory report", "--at", "leave out --at or --time");
  for (const auto& [option, given] : {std::pair{"--blocks", options.blocks}, std::pair{"--series", options.series}})
    if (options.time && given)
      return fail(ErrorKind::usage, fmt::format("{} is of the memory report", option), option,
                  fmt::format("leave out {} or --time", option));
  if (options.time && options.step == "all")
    return fail(ErrorKind::usage, "time is explained of one step", "--step", "give a number, or leave it out");
  return {};
}

Result<int> explain_its_time(const ExplainOptions& options, const ExplainRequest& request, const Loaded& loaded,
                             Console& console) {
  for (const std::string& warning : loaded.run.info.warnings) console.warn(warning);
  ExplainedTime wanted{loaded.run, options.run, loaded.workload, loaded.no_workload, request.step, {}};
  wanted.remedies = {options.machine, options.memory_limit, traces::is_store(options.run)};
  wanted.detail = options.detail;
  wanted.json = options.json;
  wanted.picture = options.picture;
  wanted.force = options.force;
  wanted.of_run = loaded.workload.get();
  if (options.no_remedies) {
    wanted.workload = nullptr;
    wanted.no_remedies = kNoRemedies;
  }
  return explain_time_of(wanted, console);
}

Result<int> explain_its_growth(const ExplainOptions& options, const Loaded& loaded, Console& console) {
  const auto growth = explain_growth(loaded.run);
  if (!growth) return tl::unexpected(in_file(growth.error(), options.run));
  for (const std::string& warning : loaded.run.info.warnings) console.warn(warning);
  if (growth->odd_events > 0)
    console.warn(fmt::format("{} allocator entries contradict the others and were passed over", growth->odd_events));
  GrowthReport report{options.run, loaded.run, *growth};
  if (loaded.workload)
    for (const RecordedStep& step : loaded.workload->recorded) report.lengths.push_back(step.seq);
  if (options.json)
    print_json(console.out, growth_json(report));
  else
    print_growth(console.out, report);
  return kDone;
}

/// Of a store without a memory record: who waits for whom.
int explain_ranks(const ExplainOptions& options, const Run& run, const Stragglers& found, Console& console) {
  if (options.json) {
    Json json = json_result("explain");
    json["run"] = options.run;
    json["name"] = run.info.name;
    json["ranks"] = stragglers_json(found);
    print_json(console.out, json);
    return kDone;
  }
  console.out << in_line(run.info.name) << ": " << in_line(straggler_sentences(found).front())
              << ".\nIt holds no memory record: import a snapshot with the traces to explain memory.\n";
  print_stragglers(console.out, found);
  return kDone;
}

/// The limit as plan takes it on the run's machine; of a machine that cannot be had as it is asked for.
Result<std::optional<Bytes>> limit_of(const ExplainOptions& options, const Run& run) {
  if (!options.memory_limit) return std::nullopt;
  const auto machine = machine_of_run(options.machine, run);
  if (!machine && options.machine.empty()) return options.memory_limit;
  FORESHARD_TRY(machine);
  return memory_limit_of(options.memory_limit, {}, options.machine, *machine);
}

Result<int> explain_run(ExplainOptions& options, Console& console) {
  FORESHARD_TRY(check_options(options));
  const auto request = request_of(options);
  FORESHARD_TRY(request);
  auto run = store_or_newest(options.run, console);
  FORESHARD_TRY(run);
  options.run = std::move(*run);
  if (std::error_code error;
      std::filesystem::exists(options.run, error) && std::filesystem::is_other(options.run, error))
    return fail(ErrorKind::input, "is a pipe or a device, a file is needed", options.run);
  if (std::error_code error; !std::filesystem::exists(options.run, error))
    return fail(ErrorKind::input,
                "cannot be opened: " + std::generic_category().message(error ? error.value() : ENOENT), options.run,
                "give the file that plan, run or import wrote with -o, or a memory snapshot");
  auto loaded = traces::is_store(options.run) ? load_store(options, console) : load_snapshot(options, console);
  FORESHARD_TRY(loaded);
  const auto limit = limit_of(options, loaded->run);
  FORESHARD_TRY(limit);
  options.memory_limit = *limit;
  if (options.growth) return explain_its_growth(options, *loaded, console);
  if (options.time) return explain_its_time(options, *request, *loaded, console);
  auto stragglers = find_stragglers(loaded->run);
  if (stragglers && loaded->run.allocator.empty()) return explain_ranks(options, loaded->run, *stragglers, console);
  const auto explanation = explain(loaded->run, *request);
  if (!explanation) return tl::unexpected(in_file(explanation.error(), options.run));
  report_oddities(console, *loaded, *explanation);
  ExplainReport report{options.run, loaded->run, *explanation, std::nullopt, {}};
  report.stragglers = std::move(stragglers);
  report.memory_limit = options.memory_limit;
  report.fingerprint = fingerprint_of(loaded->run);
  FORESHARD_TRY(simulate(options, *loaded, console, report));
  if (options.json)
    print_json(console.out, explain_json(report, options.series.value_or(kSeries)));
  else
    print_explain(console.out, report);
  return kDone;
}

}  // namespace

Action add_explain(OptionSet& set) {
  auto options = std::make_shared<ExplainOptions>();
  set.add_option(
         "run", options->run,
         "a run store, or a memory snapshot (.pickle or JSON, plain, .gz or .xz); default: the newest store here")
      .type_name("RUN|SNAPSHOT");
  set.add_option("--step", options->step,
                 "a step's number, or all; default: the last, of memory where steps differ the largest")
      .type_name("N|all");
  set.add_option("--at", options->at, "the moment of the tables: peak (of reserved), or a time after the step's begin")
      .type_name("peak|TIME");
  set.add_option("--trace", options->files.trace, "of a snapshot: the profiler trace of the same run")
      .type_name("FILE");
  set.add_option("--about", options->files.about, "of a snapshot: what it does not settle of how the run was set up")
      .type_name("FILE");
  set.add_option("--device", options->files.device, "of a snapshot: the GPU, where it has several").type_name("N");
  set.add_option("--machine", options->machine, "profile that remedies are simulated on; default: the run's, or h200")
      .type_name("NAME|FILE")
      .suggest(sim::builtin_profile_names());
  add_parsed<Bytes>(set, "--memory-limit", options->memory_limit, &parse_bytes,
                    "what the caching allocator may take: whether the run fits that, and its remedies do; default: a "
                    "plan's own, else the machine's")
      .type_name("SIZE");
  set.add_option("--blocks", options->blocks, "largest blocks that --json names at each moment; default 10")
      .type_name("N");
  set.add_option("--series", options->series, "points of the gap over time in --json; default 200").type_name("N");
  set.add_flag(kNoRemedies, options->no_remedies, "only explain, simulate nothing");
  set.add_flag("--time", options->time, "explain the step's time instead of its memory");
  set.add_flag("--growth", options->growth,
               "explain over all steps which requests made reserved memory grow, and what retries took");
  set.add_flag("--detail", options->detail, "with --time: phases, the longest intervals, the critical path, the host");
  set.add_option("-o,--output", options->picture, "with --time: the critical path as a picture, too")
      .type_name("FILE.svg")
      .writes();
  set.add_flag("--force", options->force, "write over an existing picture");
  set.add_flag("--json", options->json, "as JSON");
  return [options](Console& console) { return explain_run(*options, console); };
}

}  // namespace foreshard::cli
