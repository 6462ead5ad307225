// `foreshard import`: a PyTorch recording becomes a run store.

#include "traces/import/import.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/kept_calibration.hpp"
#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/reports/json_values.hpp"
#include "cli/reports/run_answer.hpp"
#include "cli/reports/straggler_report.hpp"
#include "cli/terminal/output.hpp"
#include "cli/terminal/printable.hpp"
#include "cli/terminal/version.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/json_io.hpp"
#include "core/base/units.hpp"
#include "core/compare/run_totals.hpp"
#include "core/run/rank_shapes.hpp"
#include "core/run/step_title.hpp"
#include "core/straggler/straggler_text.hpp"
#include "sim/machine/profile.hpp"
#include "traces/folder/recorded_shape.hpp"
#include "traces/folder/recorder_problems.hpp"
#include "traces/folder/recording_folder.hpp"
#include "traces/pytorch/about.hpp"
#include "traces/store/store.hpp"

namespace foreshard::cli {
namespace {

struct ImportOptions {
  traces::ImportRequest request;
  std::string folder;
  std::string rank;
  traces::WantedRecording wanted;
  std::string output;
  std::string log;
  std::string write_about;
  std::vector<std::string> recorder_problems;  ///< of the folder's rank.json
  bool no_workload = false;
  bool strict = false;
  bool force = false;
  bool json = false;
};

/// Setting, value, and what of the recording shows it.
Json inferred_json(const traces::Inference& inference) {
  Json list = Json::array();
  for (const traces::InferredItem& item : inference.items)
    list.push_back(
        {{"key", item.key}, {"value", parse_json_text(item.value)}, {"from", item.from}, {"settled", item.settled}});
  return list;
}

std::string word_of(const traces::InferredItem& item) {
  const Json value = parse_json_text(item.value);
  if (!value.is_string()) return item.value;
  return value.get<std::string>().empty() ? "\"\"" : value.get<std::string>();
}

void print_inferred(Console& console, const traces::Inference& inference) {
  Table table({{"inferred"}, {"value"}, {"from"}});
  for (const traces::InferredItem& item : inference.items)
    table.row({item.key, word_of(item), item.settled ? item.from : "assumed: " + item.from});
  table.print(console.out);
  for (const std::string& question : inference.unsettled)
    console.out << "not settled by the recording: " << in_line(question) << '\n';
}

/// MFU of the step time that the summary says; none where there is no step time or no workload.
std::optional<sim::Utilization> imported_utilization(const traces::Imported& imported) {
  const auto step = step_time(imported.run);
  if (!step || !imported.workload) return std::nullopt;
  return utilization_of(imported.run, *imported.workload, step->ms);
}

Json as_json(const ImportOptions& options, const traces::Imported& imported) {
  const Run& run = imported.run;
  Json json = json_result("import");
  json["output"] = options.output;
  json["name"] = run.info.name;
  json["units"] = run.units.size();
  json["steps"] = run.steps.size();
  json["allocator_events"] = run.allocator.size();
  json["blocks"] = run.blocks.size();
  json["device_ops"] = run.device_ops.size();
  json["host_ops"] = run.host_ops.size();
  json["workload"] = imported.workload.has_value();
  json["fit"] = fit_json(memory_answer(run));
  const auto mfu = imported_utilization(imported);
  json["mfu"] = mfu && mfu->value > 0 ? Json(mfu->value) : Json(nullptr);
  json["mfu_rests_on"] = mfu ? text_or_null(mfu->rests_on) : Json(nullptr);
  json["mfu_unknown"] = mfu ? text_or_null(mfu->unknown) : Json(nullptr);
  json["ranks"] = Json::array();
  for (const RankRecord& rank : run.ranks)
    json["ranks"].push_back({{"rank", rank.rank},
                             {"clock_offset_ns", rank.clock_offset.count},
                             {"clock_error_ns", rank.clock_error.count}});
  json["rank_shapes"] = rank_shapes_json(rank_shapes(run));
  json["inputs"] = Json::array();
  for (const InputFile& input : run.info.inputs)
    json["inputs"].push_back(
        {{"role", input.role}, {"path", input.path}, {"bytes", input.bytes}, {"digest", input.digest}});
  json["import_stats"] = Json::array();
  for (const ImportStat& stat : run.import_stats)
    json["import_stats"].push_back({{"name", stat.name}, {"count", stat.count}, {"text", stat.text}});
  json["inferred"] = Json::array();
  json["unsettled"] = Json::array();
  if (imported.inference) {
    json["inferred"] = inferred_json(*imported.inference);
    json["unsettled"] = imported.inference->unsettled;
  }
  json["closed"] = json["unsettled"];  // its former name
  json["warnings"] = run.info.warnings;
  json["recorder_problems"] = options.recorder_problems;
  return json;
}

/// Those that the recording calls by another number: "step 0 of the trace (ProfilerStep#3), …"; empty: none.
std::string named_steps(const Run& run) {
  std::string text;
  const StepTitles titles(run);
  for (const StepRecord& step : run.steps)
    if (!titles.recorded_name(step).empty())
      text += (text.empty() ? "" : ", ") + titles.title(step.recording, step.index);
  return text;
}

void print_summary(Console& console, const ImportOptions& options, const traces::Imported& imported) {
  const Run& run = imported.run;
  console.out << fit_line(memory_answer(run)) << '\n';
  Table table({{""}, {""}});
  table.row({"run", run.info.name});
  if (!run.info.gpu.empty()) table.row({"GPU", fmt::format("{} x {}", run.settings.world(), run.info.gpu)});
  if (!run.info.torch.empty()) table.row({"PyTorch", run.info.torch});
  table.row({"units", std::to_string(run.units.size())});
  if (!run.allocator.empty())
    table.row({"memory", fmt::format("{} allocator events, {} blocks, {} segments", exact_bytes(run.allocator.size()),
                                     exact_bytes(run.blocks.size()), exact_bytes(run.segments.size()))});
  if (!run.device_ops.empty())
    table.row({"time", fmt::format("{} device ops, {} host ops", exact_bytes(run.device_ops.size()),
                                   exact_bytes(run.host_ops.size()))});
  if (!run.ranks.empty()) {
    Nanoseconds error;
    for (const RankRecord& rank : run.ranks) error = std::max(error, rank.clock_error);
    table.row({"ranks", fmt::format("{} of {}, clocks brought together within {}", run.ranks.size(),
                                    run.settings.world(), format_time(error))});
  }
  if (const std::string shapes = rank_shapes_words(rank_shapes(run)); !shapes.empty()) table.row({"lengths", shapes});
  for (const StepRecord& step : run.steps)
    if (step.recording == Recording::snapshot)
      table.row({fmt::format("step {}", step.index),
                 fmt::format("peaks: allocated {}, reserved {}", format_bytes(step.peaks.allocated),
                             format_bytes(step.peaks.reserved))});
  if (const std::string named = named_steps(run); !named.empty()) table.row({"steps", named});
  if (const auto step = step_time(run))
    table.row({"step time", fmt::format("{} ({})", milliseconds(step->ms), step->source)});
  if (const auto mfu = imported_utilization(imported))
    table.row({"MFU", mfu->value > 0 ? fmt::format("{:.1f} %: {}", 100 * mfu->value, mfu->rests_on)
                                     : "not known: " + mfu->unknown});
  table.row({"workload", imported.workload ? "yes: plan can start from this run" : "no"});
  table.row({"written", options.output});
  table.print(console.out);
}

/// Odd but usable input: a line each; data that was lost is a warning. What is inferred has a table of its own.
std::uint64_t report_stats(Console& console, const Run& run, bool inferred) {
  std::uint64_t lost = 0;
  for (const ImportStat& stat : run.import_stats) {
    if (inferred && (stat.name == "not_settled" || stat.name.starts_with("assumed_"))) continue;
    const std::string line = fmt::format("{}: {} ({} times)", stat.name, stat.text, stat.count);
    if (stat.severity == ImportStat::Severity::info) {
      console.note("note: " + line);
    } else {
      console.warn(line);
      lost += stat.count;
    }
  }
  for (const std::string& warning : run.info.warnings) console.warn(warning);
  return lost;
}

/// What was inferred, as an about file that can be corrected and given.
Result<void> write_about(const ImportOptions& options, const traces::Imported& imported) {
  const Run& run = imported.run;
  if (!imported.inference || !imported.inference->why_not.empty())
    return fail(ErrorKind::mismatch, "the recording settles no about file",
                options.request.snapshot.empty() ? options.request.trace : options.request.snapshot,
                imported.inference ? imported.inference->why_not : "it needs a snapshot");
  traces::About about;
  about.torch = run.info.torch;
  about.nccl = run.info.nccl;
  about.gpu = run.info.gpu;
  about.sm_count = run.info.sm_count;
  about.settings = run.settings;
  about.units = run.units;
  return write_text(options.write_about, traces::about_json(about), options.force);
}

/// "runs/a.rec/" is a.rec.
std::string folder_name(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

/// A rank's number, or "all".
Result<void> parse_rank(ImportOptions& options) {
  options.wanted.all_ranks = options.rank == "all";
  if (options.rank.empty() || options.wanted.all_ranks) return {};
  const auto rank = parse_count(options.rank);
  if (!rank)
    return fail(ErrorKind::usage, fmt::format("'{}' is no rank", options.rank), "--rank", "give a number, or all");
  options.wanted.rank = *rank;
  return {};
}

/// ImportRequest::rank_shapes. What a rank.json does not say, or a broken one, is not known.
std::vector<RankShape> recorded_shapes(const traces::ChosenRecording& chosen) {
  std::vector<RankShape> out;
  for (const traces::RankFile& file : chosen.ranks)
    if (const auto shape = traces::recorded_shape(file.path); shape && *shape)
      out.push_back({file.rank, (*shape)->batch, (*shape)->seq});
  return out;
}

/// The files of the folder stand where none were given.
Result<void> choose_files(ImportOptions& options, Console& console) {
  FORESHARD_TRY(parse_rank(options));
  if (options.folder.empty()) {
    if (options.rank.empty() && !options.wanted.step) return {};
    return fail(ErrorKind::usage, "--rank and --step choose among the files of a folder, and none was given");
  }
  const auto files = traces::recording_files(options.folder);
  FORESHARD_TRY(files);
  auto chosen = traces::choose_recording(options.folder, *files, options.wanted);
  FORESHARD_TRY(chosen);
  for (const std::string& note : chosen->notes) console.note("note: " + note);
  const auto problems = traces::recorder_problems(chosen->snapshot.empty() ? chosen->trace : chosen->snapshot);
  if (problems) options.recorder_problems = *problems;
  if (!problems) options.recorder_problems.push_back(problems.error().text());
  for (const std::string& problem : options.recorder_problems)
    console.warn(problems ? "the recorder says: " + problem : problem);
  traces::ImportRequest& request = options.request;
  // Of files that were given instead nothing is known.
  if (request.about.empty() && request.trace.empty() && request.rank_traces.empty()) {
    request.rank_shapes = recorded_shapes(*chosen);
    request.rank = chosen->rank;
  }
  if (request.snapshot.empty()) request.snapshot = chosen->snapshot;
  if (request.trace.empty()) request.trace = chosen->trace;
  if (request.about.empty()) request.about = chosen->about;
  if (request.rank_traces.empty()) request.rank_traces = chosen->rank_traces;
  request.config = chosen->config;
  if (!request.logs.given) request.logs.paths = chosen->logs;
  if (request.name.empty()) request.name = folder_name(options.folder);
  return {};
}

/// Also those that were chosen out of a folder.
std::vector<std::string> files_read(const traces::ImportRequest& request) {
  std::vector<std::string> files{request.snapshot, request.trace, request.about, request.config};
  files.insert(files.end(), request.rank_traces.begin(), request.rank_traces.end());
  files.insert(files.end(), request.logs.paths.begin(), request.logs.paths.end());
  return files;
}

/// The recorder's words are known here, and not to what read the files.
Error explained(Error error, const ImportOptions& options) {
  if (error.kind == ErrorKind::mismatch && !options.recorder_problems.empty())
    error.hint = "what the recorder says may be why; else " + error.hint;
  return error;
}

Result<int> import_files(ImportOptions& options, Console& console) {
  FORESHARD_TRY(may_write(options.output, options.force));
  if (!options.write_about.empty()) FORESHARD_TRY(may_write(options.write_about, options.force));
  if (!options.log.empty()) options.request.logs = {{options.log}, true};
  FORESHARD_TRY(choose_files(options, console));
  for (const std::string& output : {options.output, options.write_about})
    FORESHARD_TRY(is_no_input(output, files_read(options.request)));
  options.request.workload = !options.no_workload;
  options.request.version = version_number();
  std::optional<Progress> progress;
  options.request.on_stage = [&](std::string_view what) { progress.emplace(console, std::string(what)); };
  auto imported = traces::import_recording(options.request);
  progress.reset();
  if (!imported) return tl::unexpected(explained(imported.error(), options));
  const std::uint64_t lost = report_stats(console, imported->run, options.request.about.empty());
  if (options.strict && lost > 0)
    return fail(ErrorKind::input, fmt::format("{} entries are odd, and --strict is set", lost), {},
                "without --strict they are counted and the import goes on");
  if (!options.write_about.empty()) FORESHARD_TRY(write_about(options, *imported));
  keep_calibration(imported->run);
  const auto written = traces::write_run(imported->run, options.output, {.force = options.force});
  FORESHARD_TRY(written);
  if (options.json) {
    print_json(console.out, as_json(options, *imported));
    return kDone;
  }
  print_summary(console, options, *imported);
  if (imported->inference && imported->inference->why_not.empty() && options.request.about.empty())
    print_inferred(console, *imported->inference);
  return kDone;
}

}  // namespace

Action add_import(OptionSet& set) {
  auto options = std::make_shared<ImportOptions>();
  traces::ImportRequest& request = options->request;
  set.add_option("folder", options->folder,
                 "what the recorder or a framework wrote: its snapshot, trace and about file");
  set.add_option("--rank", options->rank,
                 "of the folder's files, default: the lowest; all: every rank's trace, for who waits for whom")
      .type_name("N|all");
  set.add_option("--step", options->wanted.step, "of the folder's files; default: the last").type_name("N");
  set.add_option("--snapshot", request.snapshot, "memory snapshot, torch.cuda.memory._dump_snapshot()")
      .type_name("FILE");
  set.add_option("--trace", request.trace, "profiler trace, export_chrome_trace()").type_name("FILE");
  set.add_option("--rank-trace", request.rank_traces, "profiler traces of further ranks of the same run")
      .type_name("FILE");
  set.add_option("--about", request.about, "how the run was set up; without it, what the recording settles is taken")
      .type_name("FILE");
  set.add_option("--log", options->log, "training log with step times that no profiler slowed: torchtitan's")
      .type_name("FILE");
  set.add_option("-o,--output", options->output, "the store to write").required().type_name("RUN").writes();
  set.add_option("--write-about", options->write_about, "the about file that the recording settles, to be corrected")
      .type_name("FILE")
      .writes();
  set.add_option("--name", request.name, "name of the run; default: the snapshot's").type_name("NAME");
  set.add_option("--device", request.device, "the GPU, where the files have several").type_name("N");
  set.add_option("--machine", request.machine, "profile of the machine; default: by the GPU's name")
      .type_name("NAME")
      .suggest(sim::builtin_profile_names());
  set.add_flag("--cpu-ops", request.keep_cpu_ops, "keep PyTorch's operators as host ops");
  set.add_flag("--no-workload", options->no_workload, "only read: do not take the step apart for plan");
  set.add_flag("--strict", options->strict, "data that would be lost or odd is an error");
  set.add_flag("--force", options->force, "write over an existing store");
  set.add_flag("--json", options->json, "as JSON");
  return [options](Console& console) { return import_files(*options, console); };
}

}  // namespace foreshard::cli
