#include "traces/import/import.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>

#include "core/allocator/replay.hpp"
#include "core/run/graph_replay.hpp"
#include "core/run/rank_shapes.hpp"
#include "core/run/step_shapes.hpp"
#include "core/settings/settings_table.hpp"
#include "core/straggler/held_up.hpp"
#include "core/timeline/check_times.hpp"
#include "core/timeline/places.hpp"
#include "sim/machine/profile.hpp"
#include "traces/capture/capture.hpp"
#include "traces/capture/roots.hpp"
#include "traces/capture/timing.hpp"
#include "traces/import/belonging.hpp"
#include "traces/import/file_digest.hpp"
#include "traces/import/graph_notes.hpp"
#include "traces/import/import_memory.hpp"
#include "traces/import/norm_rows.hpp"
#include "traces/import/rank_traces.hpp"
#include "traces/import/recorded_graph.hpp"
#include "traces/import/recorded_steps.hpp"
#include "traces/import/snapshot_ranges.hpp"
#include "traces/import/symmetric_pools.hpp"
#include "traces/infer/check_given.hpp"
#include "traces/infer/fitted_buffers.hpp"
#include "traces/infer/fitted_optimizer.hpp"
#include "traces/infer/local_shapes.hpp"
#include "traces/infer/process_groups.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::traces {
namespace {

/// The last step's time, and its busy time: on the device from the end of the step before where there is one, or on the
/// host where that is longer (an optimizer on the CPU).
ProfiledStep profiled_step(const Run& run, const std::vector<StepRecord>& steps) {
  ProfiledStep out;
  if (steps.empty() || !steps.back().device_end) return out;
  const StepRecord& last = steps.back();
  const bool follows = steps.size() > 1 && steps[steps.size() - 2].device_end.has_value();
  const Nanoseconds on_device = *last.device_end - (follows ? *steps[steps.size() - 2].device_end : last.start);
  out.step_ms = std::max(on_device, last.end - last.start).ms();
  for (const DeviceOpRecord& op : run.device_ops)
    if (op.stream == kComputeStream && op.kind != DeviceOpRecord::Kind::collective && op.issue >= last.start &&
        op.issue < last.end)
      out.compute_busy_ms += (op.end - op.start).ms();
  return out;
}

/// End of the last op on the compute stream among those that the host issued in the step. `steps` follow one another.
void set_device_ends(const Run& run, std::vector<StepRecord>& steps) {
  for (const DeviceOpRecord& op : run.device_ops) {
    if (op.stream != kComputeStream) continue;
    const auto after = std::upper_bound(steps.begin(), steps.end(), op.issue,
                                        [](Nanoseconds time, const StepRecord& step) { return time < step.start; });
    if (after == steps.begin() || op.issue >= std::prev(after)->end) continue;
    std::optional<Nanoseconds>& end = std::prev(after)->device_end;
    end = std::max(end.value_or(op.end), op.end);
  }
}

std::string shapes_of(const Capture& capture) {
  const auto shape = [](const RecordedStep& step) { return StepShape{step.batch, step.seq}; };
  std::vector<StepShape> snapshot, trace;
  for (const RecordedStep& step : capture.workload.recorded) snapshot.push_back(shape(step));
  for (const SizedStep& step : capture.profiled) {
    const auto place = static_cast<std::size_t>(std::max(0, step.index));
    if (place >= trace.size()) trace.resize(place + 1);
    trace[place] = shape(step.size);
  }
  return step_shapes_text(snapshot, trace);
}

std::string name_of(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  for (const char* suffix : {".xz", ".gz", ".pickle", ".json", ".trace", ".about"})
    if (name.ends_with(suffix)) name.resize(name.size() - std::string_view(suffix).size());
  return name;
}

/// The built-in profile of the GPU, else the first one.
std::string machine_of(const std::string& gpu, std::vector<std::string>& warnings) {
  if (const auto name = sim::builtin_profile_of(gpu)) return std::string(*name);
  const std::string first(sim::builtin_profile_names().front());
  if (!gpu.empty())
    warnings.push_back(fmt::format("no machine profile for '{}': {} is used to take contention out", gpu, first));
  return first;
}

/// What the recording says, else the profile of the GPU that it names.
std::uint32_t sm_count_of(const Run& run, const sim::MachineProfile& machine) {
  return run.info.sm_count != 0 ? run.info.sm_count : machine.sm_count;
}

/// The error with the file's name in front of its place.
tl::unexpected<Error> located(Error error, const std::string& file) {
  if (!error.where.starts_with(file)) error.where = error.where.empty() ? file : file + ", " + error.where;
  return tl::unexpected(std::move(error));
}

/// One rank's trace among several may be left out for what is in it, but not for a name that is no file's.
Result<void> check_readable(const std::string& file) {
  std::error_code error;
  if (::access(file.c_str(), R_OK) != 0)
    return fail(ErrorKind::input, "cannot be opened: " + std::generic_category().message(errno), file);
  if (std::filesystem::is_directory(file, error))
    return fail(ErrorKind::input, "this is a folder, a file is needed", file);
  return {};
}

/// Times that a store can hold, and verbs subtract.
Result<void> check_recorded(const Run& run, const std::string& file) {
  if (const auto times = check_times(run); !times)
    return fail(ErrorKind::input, times.error().what, file,
                "the recording's clocks cannot be trusted; record it again");
  return {};
}

/// One import while it grows. Each step leaves what the later ones need.
class Importer {
 public:
  explicit Importer(const ImportRequest& request)
      : request_(request),
        files_{request.snapshot, request.trace, request.about.empty() ? request.snapshot : request.about} {}

  Result<Imported> import() {
    if (request_.snapshot.empty() && request_.trace.empty())
      return fail(ErrorKind::usage, "nothing to import", {}, "give --snapshot, --trace, or both");
    if (request_.trace.empty() && !request_.rank_traces.empty())
      return fail(ErrorKind::usage, "further ranks' traces need a first one");
    run().info.kind = RunKind::imported;
    for (const auto part :
         {&Importer::read_files, &Importer::settle, &Importer::take_snapshot, &Importer::take_trace,
          &Importer::take_ranks, &Importer::take_log, &Importer::note_late_rank, &Importer::take_workload})
      if (auto done = (this->*part)(); !done) return blamed(std::move(done).error());
    add_memory_side();
    if (snapshot_) FORESHARD_TRY(check_recorded(run(), files_.snapshot));  // what is of the trace was looked at before
    finish();
    return std::move(out_);
  }

 private:
  /// A configuration that lay in the folder is not what the user gave, nor can they leave it out of it.
  [[nodiscard]] tl::unexpected<Error> blamed(Error error) const {
    const bool config = !request_.config.empty() && files_.about == request_.config;
    if (config && (error.where.starts_with(request_.config) || error.what.find(request_.config) != std::string::npos))
      error.hint =
          "it was found in the folder: if it is of another run, give the recording's files alone, --snapshot and "
          "--trace";
    return tl::unexpected(std::move(error));
  }
  void stage(std::string_view what) const {
    if (request_.on_stage) request_.on_stage(what);
  }
  Result<void> note_file(const char* role, const std::string& path) {
    auto digest = file_digest(path);
    FORESHARD_TRY(digest);
    inputs_.push_back({role, path, digest->bytes, digest->text});
    return {};
  }
  void add_stats(const std::vector<ImportStat>& stats) {
    run().import_stats.insert(run().import_stats.end(), stats.begin(), stats.end());
  }
  Run& run() { return out_.run; }

  Result<void> read_files();
  Result<void> look_for_graph();
  /// What a workload is made of: the snapshot, without a CUDA graph's warm-up, capture and replays.
  [[nodiscard]] const Snapshot& program() const { return graph_ ? eager_ : snapshot_->snapshot; }
  [[nodiscard]] const std::vector<Range>& program_ranges() const { return graph_ ? eager_ranges_ : memory_ranges_; }
  void take_replayed_trace();
  Result<void> infer_settings();
  Result<void> settle();
  Result<void> take_trace();
  Result<void> take_ranks();
  Result<void> take_own_shape();
  void keep_shapes();
  Result<void> note_late_rank();
  Result<void> take_snapshot();
  Result<void> take_log();
  Result<void> take_workload();
  [[nodiscard]] bool has_inferred() const { return out_.inference && out_.inference->why_not.empty(); }
  void note_attention(StepTiming& timing) const;
  CaptureInput capture_input(std::uint32_t sm_count);
  [[nodiscard]] std::string optimizer_seen() const;
  Result<void> unknown_optimizer(const Capture& capture, std::uint32_t sm_count);
  Result<void> fit_given_buffers(std::uint32_t sm_count);
  Result<Capture> take_apart(const StepTiming* timing, std::uint32_t sm_count);
  Result<Capture> take_apart_as_set(const StepTiming* timing, std::uint32_t sm_count);
  void keep_measured();
  void no_workload(const std::string& why);
  void add_memory_side();
  void finish();

  const ImportRequest& request_;
  FileNames files_;
  Imported out_;
  std::vector<InputFile> inputs_;
  std::optional<About> about_;
  std::optional<TitanConfig> config_;
  std::vector<ImportStat> config_stats_;
  std::vector<ImportStat> assumptions_;
  std::optional<Measured> measured_;  // of an about file that is otherwise not used
  std::string uneven_shards_;         // why this rank's recording gives no workload
  bool inferred_ = false;             // about_ is no file's, but what recording and configuration say
  std::optional<ProfilerTrace> trace_;
  std::optional<SnapshotFile> snapshot_;
  std::vector<Range> memory_ranges_;
  Hooks memory_hooks_;
  std::optional<RecordedGraph> graph_;  // that the snapshot shows, and …
  Snapshot eager_;                      // … what it would show without it
  std::vector<Range> eager_ranges_;
  ReplayReport replay_;
  std::vector<AllocationNote> notes_;
};

Result<void> Importer::read_files() {
  if (!request_.about.empty()) {
    auto about = read_about(request_.about, AboutParts::some);
    FORESHARD_TRY(about);
    about_ = std::move(*about);
    FORESHARD_TRY(note_file("about", request_.about));
    if (gives(*about_, "batch")) FORESHARD_TRY(take_own_shape());
  }
  if (!request_.config.empty()) {
    config_ = found_config(request_.config, config_stats_);
    // Settings alone: without a snapshot they are not those of a whole about file.
    if (config_ && !about_ && !request_.snapshot.empty()) {
      about_ = config_->about;
      files_.about = request_.config;
      FORESHARD_TRY(note_file("config", request_.config));
    }
  }
  if (!request_.snapshot.empty()) {
    stage("reading the snapshot");
    auto snapshot = read_snapshot(request_.snapshot, {.device = request_.device});
    FORESHARD_TRY(snapshot);
    snapshot_ = std::move(*snapshot);
    memory_ranges_ = snapshot_ranges(snapshot_->snapshot);
    if (auto ranges = check_ranges(memory_ranges_); !ranges) return located(ranges.error(), files_.snapshot);
    FORESHARD_TRY(note_file("snapshot", request_.snapshot));
    FORESHARD_TRY(look_for_graph());
  }
  if (!request_.trace.empty()) {
    stage("reading the profiler trace");
    auto trace =
        read_profiler_trace(request_.trace, {.keep_cpu_ops = request_.keep_cpu_ops, .device = request_.device});
    FORESHARD_TRY(trace);
    trace_ = std::move(*trace);
    FORESHARD_TRY(check_rank(trace_->rank, trace_->world_size, request_.trace));
    FORESHARD_TRY(note_file("trace", request_.trace));
  }
  return {};
}

Result<void> Importer::look_for_graph() {
  const std::vector<Unit> units = units_named(memory_ranges_);
  const auto hooks = find_hooks(memory_ranges_, units);
  if (!hooks) return located(hooks.error(), files_.snapshot);
  graph_ = find_graph(snapshot_->snapshot, *hooks);
  if (!graph_) return {};
  eager_ = eager_part(snapshot_->snapshot, *graph_);
  eager_ranges_ = snapshot_ranges(eager_);
  return {};
}

/// What the snapshot says of its own run stands for what the about file does not say, and the rest is held against it.
Result<void> Importer::infer_settings() {
  if (snapshot_) {
    stage("reading settings off the recording");
    const std::vector<CaptureEvent> events = capture_events(program().events, snapshot_origin_us(program()));
    const bool times = trace_ && !replays_alone(trace_->run);
    const std::vector<Range> ranges = times ? trace_ranges(trace_->run) : std::vector<Range>();
    if (std::string roots = two_roots(events, program_ranges()); !roots.empty() && !request_.about.empty())
      return fail(ErrorKind::mismatch, std::move(roots), files_.snapshot, kOneRootHint);
    out_.inference = infer({program(), events, program_ranges(), times ? &*trace_ : nullptr, ranges});
    if (about_ && has_inferred()) {
      const auto mesh = given_mesh(*about_, *out_.inference, trace_ ? trace_->world_size : std::nullopt, files_.about,
                                   files_.snapshot);
      FORESHARD_TRY(mesh);
      const auto local = set_local_shapes(about_->units, *mesh, out_.inference->recorded);
      if (!local) return located(local.error(), files_.about);
    }
  }
  if (!has_inferred()) {
    if (about_ && request_.about.empty()) about_.reset();  // settings alone do not stand for a recording
    if (!about_) return {};
    if (about_->units.empty()) {
      keep_measured();
      return {};
    }
    auto whole = check_whole(*about_, files_.about);
    if (!whole && out_.inference) whole.error().hint = "the recording does not settle it: " + out_.inference->why_not;
    return whole;
  }
  if (!out_.inference->disagreement.empty())
    return fail(ErrorKind::mismatch, out_.inference->disagreement, files_.trace, "give the files of one run");
  inferred_ = request_.about.empty();
  auto whole = completed(about_.value_or(About{}), *out_.inference, files_.about, files_.snapshot);
  FORESHARD_TRY(whole);
  assumptions_ = assumptions(about_.value_or(About{}), *out_.inference);
  about_ = std::move(*whole);
  return {};
}

/// An about file without units beside a recording that does not settle them: of it, what was measured stays.
void Importer::keep_measured() {
  measured_ = std::move(about_->measured);
  if (!about_->given.empty())
    config_stats_.push_back({"about_not_used", ImportStat::Severity::info, about_->given.size(),
                             fmt::format("settings of {} are not used: it has no units, and the recording does not "
                                         "settle them",
                                         files_.about)});
  about_.reset();
}

void Importer::no_workload(const std::string& why) {
  add_stats(
      {{"no_workload", ImportStat::Severity::info, 1, fmt::format("there is no workload to plan from: {}", why)}});
}

/// Settings, units and header, and whether the files are of one run.
Result<void> Importer::settle() {
  FORESHARD_TRY(infer_settings());
  if (out_.inference && !out_.inference->other_inputs.empty())
    assumptions_.push_back({"other_inputs", ImportStat::Severity::info, 1,
                            fmt::format("{} {}: its inputs are of another kind, or it is of another run or size",
                                        files_.trace, out_.inference->other_inputs)});
  if (trace_ && about_) {
    if (gives(*about_, "gpus"))
      FORESHARD_TRY(check_trace(*trace_, *about_, out_.inference ? out_.inference->other_ranks : 1, files_));
    uneven_shards_ = uneven_shards(*trace_, about_->settings, about_->units);
  }
  if (trace_) FORESHARD_TRY(check_recorded(trace_->run, files_.trace));
  if (trace_) out_.run = std::move(trace_->run);
  Run& r = run();
  if (trace_)
    for (const TraceDevice& device : trace_->devices)
      if (device.id == trace_->device && device.memory > 0)
        r.results["device_memory_bytes"] = std::to_string(device.memory);
  add_stats(assumptions_);
  if (graph_)
    add_stats(
        {{"cuda_graph", ImportStat::Severity::info, 1,
          fmt::format(
              "forward and backward are captured in a CUDA graph after {} eager and {} warm-up steps: plans "
              "are made of the steps before{}",
              graph_->steps.eager_steps, graph_->steps.warm_up_steps,
              graph_->captures > 1 ? fmt::format("; {} graphs are captured, into {}", graph_->captures,
                                                 graph_->pools.size() > 1 ? "pools of their own" : "one pool")
              : graph_->graphs > 1
                  ? fmt::format("; they are captured apart, in {} graphs, and plans have one of both", graph_->graphs)
                  : "")}});
  if (graph_)
    for (const auto& [own, handle] : graph_->pools)
      if (own == 0) r.results[kGraphPoolHandle] = std::to_string(handle);
  if (!about_) {
    const std::vector<Range> ranges = snapshot_ ? std::vector<Range>() : trace_ranges(r);
    r.units = units_named(snapshot_ ? std::span<const Range>(memory_ranges_) : std::span<const Range>(ranges));
    if (trace_ && trace_->world_size) r.settings.gpus = *trace_->world_size;
    if (snapshot_) r.settings.alloc_conf = snapshot_->snapshot.settings.alloc_conf;
    r.measured = std::move(measured_);
    return {};
  }
  r.settings = about_->settings;
  if (graph_) r.settings.cuda_graph = graph_->steps;
  r.units = about_->units;
  r.measured = about_->measured;
  r.info.torch = about_->torch;
  if (!about_->nccl.empty()) r.info.nccl = about_->nccl;
  if (!about_->gpu.empty()) r.info.gpu = about_->gpu;
  if (about_->sm_count != 0) r.info.sm_count = about_->sm_count;
  r.info.warnings = about_->warnings;
  if (snapshot_) {
    FORESHARD_TRY(check_snapshot(*snapshot_, *about_, files_));
    FORESHARD_TRY(check_units(memory_ranges_, r.units, files_.snapshot, files_.about));
  }
  return {};
}

/// Kernels of a graph say nothing of FSDP2's ranges: there is no time to plan from.
void Importer::take_replayed_trace() {
  Run& r = run();
  take_replays(r);
  set_device_ends(r, r.steps);
  add_stats(
      {{"graph_replays", ImportStat::Severity::info, r.steps.size(),
        fmt::format("the trace shows replays of a CUDA graph, whose kernels belong to no range of FSDP2: "
                    "they are drawn, and plans have no times; record a trace of the steps before the capture too"
                    "{}",
                    graph_ || !snapshot_ ? "" : "; the snapshot shows no capture: its memory is of eager steps")}});
}

Result<void> Importer::take_trace() {
  if (!trace_) return {};
  Run& r = run();
  if (replays_alone(r)) {
    take_replayed_trace();
    return {};
  }
  const std::vector<Range> ranges = trace_ranges(r);
  const std::string& units_file = about_ ? files_.about : files_.snapshot;
  if (about_ || snapshot_) {
    // Units that only the snapshot named have no parameters: compare both lists of names.
    std::vector<Unit> units = r.units;
    if (!about_)
      for (Unit& unit : units) unit.parameters.resize(1);
    FORESHARD_TRY(check_units(ranges, units, files_.trace, units_file));
  }
  const auto hooks = find_hooks(ranges, r.units);
  if (!hooks) return located(hooks.error(), files_.trace);
  if (about_) FORESHARD_TRY(check_microbatches(*hooks, *about_, files_.trace, files_));
  if (snapshot_) {
    FORESHARD_TRY(check_order({memory_ranges_, memory_hooks_, files_.snapshot}, {ranges, *hooks, files_.trace}));
    FORESHARD_TRY(check_norm_rows(
        norm_rows(r, *hooks),
        forward_requests(capture_events(snapshot_->snapshot.events, snapshot_origin_us(snapshot_->snapshot)),
                         memory_hooks_),
        files_.trace, files_.snapshot));
  }
  r.steps = step_records(*hooks, Recording::trace);
  set_device_ends(r, r.steps);
  if (r.measured) FORESHARD_TRY(check_time(profiled_step(r, r.steps), *r.measured, files_));
  r.phases = phase_records(*hooks, Recording::trace);
  add_stats(hooks->stats);
  return {};
}

Result<void> Importer::take_ranks() {
  if (request_.rank_traces.empty()) {
    keep_shapes();
    return {};
  }
  RankTraces ranks({trace_->rank.value_or(0), trace_->world_size, trace_->origin_ns, trace_->communicators}, run());
  for (const std::string& file : request_.rank_traces) {
    stage("reading " + file);
    FORESHARD_TRY(check_readable(file));
    auto trace = read_profiler_trace(file, {.keep_cpu_ops = false, .device = request_.device});
    if (!trace) {
      ranks.leave_out(file, trace.error().what);
      continue;
    }
    FORESHARD_TRY(note_file("trace", file));
    FORESHARD_TRY(ranks.add({file, std::move(*trace)}));
  }
  ranks.finish();
  keep_shapes();
  return {};
}

/// What the recorded rank was given stands for the about file's, which is rank 0's: of rank 0 they are the same.
Result<void> Importer::take_own_shape() {
  const auto own = std::find_if(request_.rank_shapes.begin(), request_.rank_shapes.end(),
                                [&](const RankShape& of) { return of.rank == request_.rank; });
  if (own == request_.rank_shapes.end()) return {};
  Settings& settings = about_->settings;
  const StepShape was{settings.batch.value_or(own->batch), settings.seq.value_or(own->seq)};
  const StepShape is{own->batch, settings.seq ? own->seq : was.seq};
  if (own->rank == 0 && was != is)
    return fail(ErrorKind::mismatch,
                fmt::format("says {}, and rank.json of rank 0 {}", shape_words(was), shape_words(is)), files_.about,
                "one of the two is of another run: leave that one out, or correct it");
  settings.batch = is.batch;
  if (settings.seq) settings.seq = is.seq;
  return {};
}

/// What each rank was given, where that differs and is known of all whose traces were read.
void Importer::keep_shapes() {
  const std::vector<RankShape>& shapes = request_.rank_shapes;
  const auto as_first = [&](const RankShape& of) {
    return of.batch == shapes.front().batch && of.seq == shapes.front().seq;
  };
  const auto is_known = [&](const RankRecord& rank) {
    return std::any_of(shapes.begin(), shapes.end(), [&](const RankShape& of) { return of.rank == rank.rank; });
  };
  if (std::all_of(shapes.begin(), shapes.end(), as_first)) return;
  if (!std::all_of(run().ranks.begin(), run().ranks.end(), is_known)) return;
  run().results[kRankShapes] = rank_shapes_text(shapes);
}

/// Steps were measured while another rank was given more to do, or was late, as the profiled ones show.
Result<void> Importer::note_late_rank() {
  Run& r = run();
  if (!r.measured) return {};
  if (const auto by = held_up_by(r)) {
    r.measured->late_rank = static_cast<std::int32_t>(by->rank);
    r.measured->late_itself = by->itself;
  }
  return {};
}

Result<void> Importer::take_snapshot() {
  if (!snapshot_) return {};
  stage("replaying the allocator");
  auto hooks = find_hooks(memory_ranges_, run().units);
  if (!hooks) return located(hooks.error(), files_.snapshot);
  memory_hooks_ = std::move(*hooks);
  if (about_) FORESHARD_TRY(check_microbatches(memory_hooks_, *about_, files_.snapshot, files_));
  if (graph_) add_replays(*graph_, memory_ranges_, memory_hooks_);
  std::vector<Nanoseconds> begins;
  for (const StepRecord& step : step_records(memory_hooks_, Recording::snapshot)) begins.push_back(step.start);
  ReplayOptions options;
  options.pytorch = run().settings.pytorch;
  options.step_starts = events_at(snapshot_->snapshot, begins);
  options.pools = symmetric_pools(snapshot_->snapshot, run().settings);
  auto replay = verify(snapshot_->snapshot, options);
  if (!replay) return located(replay.error(), files_.snapshot);
  replay_ = std::move(*replay);
  add_stats(snapshot_->stats);
  const auto failures = std::count_if(snapshot_->snapshot.events.begin(), snapshot_->snapshot.events.end(),
                                      [](const AllocatorEvent& e) { return e.action == AllocatorAction::oom; });
  if (failures > 0)
    add_stats({{"out_of_memory", ImportStat::Severity::info, static_cast<std::uint64_t>(failures),
                "requests found no memory; explain says why, and plans start from the whole steps before"}});
  if (replay_.mismatches > 0)
    add_stats({{"replay_mismatches", ImportStat::Severity::data_loss, replay_.mismatches,
                "allocator entries came out otherwise in the replay, first: " + replay_.first_mismatch}});
  return {};
}

Result<void> Importer::take_log() {
  add_stats(config_stats_);
  if (request_.logs.paths.empty()) return {};
  if (run().measured) {
    if (request_.logs.given)
      add_stats({{"log_not_used", ImportStat::Severity::info, 1, "the about file has the measured steps already"}});
    return {};
  }
  const Settings& settings = about_ ? run().settings : config_ ? config_->about.settings : run().settings;
  std::vector<ImportStat> stats;
  auto measured = logged_times(request_.logs, log_units(settings, about_.has_value(), config_), stats);
  FORESHARD_TRY(measured);
  run().measured = std::move(*measured);
  add_stats(stats);
  return {};
}

/// The parameters of those names, each of which a unit has.
std::vector<std::vector<ParameterId>> param_groups_named(const std::vector<std::vector<std::string>>& groups,
                                                         const std::vector<Unit>& units) {
  std::map<std::string_view, ParameterId> ids;
  std::uint32_t next = 0;
  for (const Unit& unit : units)
    for (const Parameter& parameter : unit.parameters) ids[parameter.name] = ParameterId{next++};
  std::vector<std::vector<ParameterId>> out;
  for (const std::vector<std::string>& group : groups) {
    out.emplace_back();
    for (const std::string& name : group) out.back().push_back(ids.at(name));
  }
  return out;
}

CaptureInput Importer::capture_input(std::uint32_t sm_count) {
  const Run& r = run();
  return {.snapshot = program(),
          .initial_segments = replay_.initial_segments,
          .settings = r.settings,
          .units = r.units,
          .sm_count = sm_count,
          .requires_grad_known = about_->requires_grad_known,
          .optimizer_param_groups = param_groups_named(about_->optimizer_param_groups, r.units),
          .measured = r.measured,
          .timing = nullptr,
          .name = request_.name.empty() ? name_of(request_.snapshot) : request_.name,
          .gpu = r.info.gpu,
          .torch = r.info.torch};
}

/// The about file's buffers make other requests than the recorded ones: an error where the recording's own make them.
Result<void> Importer::fit_given_buffers(std::uint32_t sm_count) {
  const Settings given = run().settings;
  Settings& trial = run().settings;
  trial.unshard_async = out_.inference->settings.unshard_async;
  trial.gather_alloc = GatherAlloc::copy_in;
  trial.offload = false;
  trial = fit_buffers(capture_input(sm_count), *out_.inference);
  if (!capture_at(capture_input(sm_count), trial)) {
    trial = given;
    return {};
  }
  return check_given_buffers(*about_, given, trial, files_.about, files_.snapshot);
}

/// Under the buffers and the optimizer that the recording's own requests fit, where no about file names them.
Result<Capture> Importer::take_apart(const StepTiming* timing, std::uint32_t sm_count) {
  if (inferred_) run().settings = fit_buffers(capture_input(sm_count), *out_.inference);
  auto capture = take_apart_as_set(timing, sm_count);
  if (capture || inferred_ || !has_inferred()) return capture;
  FORESHARD_TRY(fit_given_buffers(sm_count));
  return take_apart_as_set(timing, sm_count);
}

Result<Capture> Importer::take_apart_as_set(const StepTiming* timing, std::uint32_t sm_count) {
  if (has_inferred() && !gives(*about_, "optimizer")) {
    fit_optimizer(capture_input(sm_count), program_ranges(), *out_.inference);
    run().settings.optimizer = out_.inference->settings.optimizer;
  }
  CaptureInput input = capture_input(sm_count);
  input.timing = timing;
  return read_capture(std::move(input));
}

/// What the recording shows of an optimizer that is not known: a clause behind a colon, or an empty text.
std::string Importer::optimizer_seen() const {
  const InferredItem* item = out_.inference ? out_.inference->item("optimizer") : nullptr;
  return item == nullptr ? std::string() : ": " + item->from;
}

/// The recorded optimizer's requests are not those of the settings': an error where they are another known one's.
Result<void> Importer::unknown_optimizer(const Capture& capture, std::uint32_t sm_count) {
  const Optimizer optimizer = run().settings.optimizer;
  if (has_inferred() && gives(*about_, "optimizer")) {
    fit_optimizer(capture_input(sm_count), program_ranges(), *out_.inference);
    FORESHARD_TRY(check_given_optimizer(optimizer, *out_.inference, files_.about, files_.snapshot));
  }
  if (capture.optimizer_began_before) {
    add_stats({{"optimizer_began_before", ImportStat::Severity::info, 1,
                "the recording began after the optimizer had made its states: they stay as recorded, and plans cannot "
                "change the optimizer"}});
    return {};
  }
  const std::size_t groups = about_->optimizer_param_groups.size();
  const std::string what =
      gives(*about_, "optimizer")
          ? fmt::format("the recorded optimizer does not allocate as {}{} of {} does", name(optimizer),
                        groups > 0 ? fmt::format(" with the {} param_groups", groups) : std::string(),
                        inferred_ ? std::string("PyTorch") : files_.about)
          : "the recording's optimizer is none that is known" + optimizer_seen();
  run().info.warnings.push_back(what +
                                "; its allocations are kept as recorded, and plans cannot change the optimizer or the "
                                "number of shard ranks");
  return {};
}

/// What the inference saw of the steps that it was read from.
void Importer::note_attention(StepTiming& timing) const {
  if (!out_.inference || timing.indices.empty()) return;
  const auto step = static_cast<std::size_t>(timing.indices.front());
  if (step < out_.inference->attention.size()) timing.attention = out_.inference->attention[step];
}

Result<void> Importer::take_workload() {
  if (!request_.workload) return {};
  if (!snapshot_)
    no_workload("the trace times kernels, but only a memory snapshot has the requests that they belong to");
  if (snapshot_ && !about_) no_workload(out_.inference->why_not);
  if (snapshot_ && about_ && !uneven_shards_.empty()) no_workload(uneven_shards_);
  if (!snapshot_ || !about_ || !uneven_shards_.empty()) return {};
  stage("taking the step apart");
  Run& r = run();
  const std::string machine_name =
      request_.machine.empty() ? machine_of(r.info.gpu, r.info.warnings) : request_.machine;
  auto machine = sim::builtin_profile(machine_name);
  FORESHARD_TRY(machine);
  std::optional<StepTiming> timing;
  if (trace_ && !replays_alone(r)) {
    auto read = read_timing(r, *machine, process_groups_of(trace_->communicators));
    if (!read) return located(read.error(), files_.trace);
    timing = std::move(*read);
    note_attention(*timing);
    for (StepTiming& size : timing->sizes) note_attention(size);
  }
  auto capture = take_apart(timing ? &*timing : nullptr, sm_count_of(r, *machine));
  if (timing) {
    // Of a recording whose steps differ the capture has taken the times of all profiled ones.
    if (capture && !capture->workload.recorded.empty())
      std::erase_if(timing->stats, [](const ImportStat& stat) { return stat.name == "different_steps"; });
    add_stats(timing->stats);
  }
  if (!capture && inferred_) {
    no_workload(capture.error().text());
    return {};
  }
  if (!capture && capture.error().where == files_.about) return tl::unexpected(capture.error());
  if (!capture) return located(capture.error(), files_.snapshot);
  r.info.machine = machine_name;
  if (!capture->workload.optimizer_known) FORESHARD_TRY(unknown_optimizer(*capture, sm_count_of(r, *machine)));
  if (!capture->workload.shards_known && !r.settings.offload)
    add_stats({{"shards_not_recorded", ImportStat::Severity::info, 1,
                "the parameters were made before the recording began, or not in an order that is known: plans cannot "
                "change the number of shard ranks"}});
  capture->workload.rank_shapes = rank_shapes(r);
  r.units = capture->workload.units;
  if (r.measured) r.measured->cycle = capture->workload.cycle;
  notes_ = std::move(capture->allocations);
  add_stats(capture->stats);
  if (!capture->workload.recorded.empty()) r.results[kStepShapes] = shapes_of(*capture);
  out_.workload = std::move(capture->workload);
  r.workload_json = to_json(*out_.workload);
  return {};
}

void Importer::add_memory_side() {
  if (!snapshot_) return;
  const Labels none;
  const auto notes = graph_ ? graph_notes(snapshot_->snapshot, memory_hooks_, *graph_, notes_)
                            : std::vector<std::optional<AllocationNote>>(notes_.begin(), notes_.end());
  add_memory({snapshot_->snapshot, memory_ranges_, memory_hooks_, replay_, notes,
              out_.workload ? out_.workload->labels : none},
             run());
}

void Importer::finish() {
  Run& r = run();
  r.info.name = request_.name;
  if (r.info.name.empty()) r.info.name = name_of(request_.snapshot.empty() ? request_.trace : request_.snapshot);
  r.info.foreshard_version = request_.version;
  r.info.inputs = std::move(inputs_);
  place_units(r);
}

}  // namespace

Result<Imported> import_recording(const ImportRequest& request) {
  return Importer(request).import();
}

Result<Run> import_run(const ImportRequest& request) {
  auto imported = import_recording(request);
  FORESHARD_TRY(imported);
  return std::move(imported->run);
}

}  // namespace foreshard::traces
