// `foreshard forecast SOURCE --lengths FILE|HISTOGRAM`: memory over thousands of steps of varying sequence length.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/options/lengths_option.hpp"
#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/options/part_options.hpp"
#include "cli/options/planning.hpp"
#include "cli/reports/counted.hpp"
#include "cli/reports/fingerprint.hpp"
#include "cli/reports/forecast_report.hpp"
#include "cli/reports/no_remedies.hpp"
#include "cli/reports/plan_command.hpp"
#include "cli/reports/prediction_report.hpp"
#include "cli/reports/store_run.hpp"
#include "cli/reports/stored_pictures.hpp"
#include "cli/verbs/forecast_process.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/adapt/adapt.hpp"
#include "core/base/digest.hpp"
#include "core/base/units.hpp"
#include "sim/forecast/forecast_part.hpp"
#include "sim/forecast/forecast_remedies.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/memory_doubts.hpp"
#include "sim/predict/process_memory_options.hpp"
#include "sim/sweep/wrapped_modules.hpp"
#include "traces/workload_file/workload_file.hpp"
#include "viz/svg/memory_over_steps.hpp"

namespace foreshard::cli {
namespace {

constexpr std::uint32_t kForecastSteps = 10'000;
constexpr std::uint32_t kSeeds = 4;  // of drawn lengths
constexpr unsigned kMaxSteps = 10'000'000;
constexpr std::size_t kMaxKept = 20'000'000;  // steps of all seeds; each takes 40 bytes
constexpr std::size_t kPictured = 16'384;     // of a picture; of more steps the largest of several are one
constexpr std::size_t kMaxLengths = 16'384;   // different ones: of an 8B model a gigabyte, and minutes

struct ForecastOptions {
  SourceOptions source;
  SettingOptions setting_options;
  PartsOptions parts;
  std::string lengths;
  std::uint32_t steps = kForecastSteps;
  std::optional<std::uint64_t> seed;
  std::optional<std::uint32_t> seeds;
  std::uint32_t pad = 1;
  std::uint32_t empty_cache = 0;
  std::string between = "refuse";
  std::optional<Bytes> memory_limit;
  unsigned jobs = 0;
  std::string csv;
  std::string picture;
  bool no_remedies = false;
  bool force = false;
  bool json = false;
};

Result<void> check_options(const ForecastOptions& options, const sim::Lengths& lengths) {
  if (options.setting_options.given("seq"))
    return fail(ErrorKind::usage, "the lengths are those of --lengths", "--seq", "leave --seq out");
  if (!lengths.drawn() && (options.seed || options.seeds))
    return fail(ErrorKind::usage, "a list of lengths is run in its order: nothing is drawn",
                options.seed ? "--seed" : "--seeds", "leave it out, or give a histogram");
  const std::uint64_t more = options.seeds.value_or(kSeeds) - 1;
  if (options.seed && *options.seed > UINT64_MAX - more)
    return fail(ErrorKind::usage, fmt::format("{} seeds from {} on go beyond {}", more + 1, *options.seed, UINT64_MAX),
                "--seed", "begin with a smaller one");
  if (!options.picture.empty() && !options.picture.ends_with(".svg") && !options.picture.ends_with(".db"))
    return fail(ErrorKind::usage, "a forecast is written as .svg or .db", options.picture,
                "name the output x.svg, or x.db for `view`");
  for (const std::string& path : {options.csv, options.picture})
    if (!path.empty()) FORESHARD_TRY(may_write(path, options.force));
  return {};
}

/// Only drawn lengths are several training runs, which can be split.
Result<void> split_seeds(const ForecastOptions& options, const std::optional<sim::Part>& part,
                         const sim::Lengths& lengths) {
  if (!part && !options.parts.joins()) return {};
  if (!lengths.drawn())
    return fail(ErrorKind::usage, "a list of lengths is one training run, which is not split",
                part ? "--part" : "--parts", "give a histogram and --seeds, or leave it out");
  if (part && (!options.csv.empty() || !options.picture.empty()))
    return fail(ErrorKind::usage, "a part of a forecast has no table and no picture", "--part",
                "give --csv and -o where all parts are read, without --part");
  if (part) FORESHARD_TRY(may_write_part(options.parts.folder, *part, options.force));
  return {};
}

/// What is kept of each step and each length adds up. Returns how many different lengths there are.
Result<std::size_t> check_size(const sim::Lengths& lengths, std::size_t steps,
                               const std::vector<std::uint64_t>& seeds) {
  if (steps * seeds.size() > kMaxKept)
    return fail(ErrorKind::usage,
                fmt::format("{} steps of {} seeds are more than {} steps in all", steps, seeds.size(), kMaxKept),
                "--steps", "fewer steps, or fewer seeds");
  std::set<std::uint32_t> distinct;
  for (const std::uint64_t seed : seeds) {
    const auto more = lengths.distinct(seed, steps);
    distinct.insert(more.begin(), more.end());
  }
  if (distinct.size() <= kMaxLengths) return distinct.size();
  return fail(
      ErrorKind::usage,
      fmt::format("{} different lengths: a program is made for each, of at most {}", distinct.size(), kMaxLengths),
      "--lengths", "pad them to a multiple, as training does: --pad 64");
}

/// What a source has no use for, or cannot answer.
Result<void> check_source(const ForecastOptions& options, const traces::Source& source) {
  if (!source.model) return {};
  if (options.between != "refuse")
    return fail(ErrorKind::usage, "a model has a program at every length", "--between",
                "leave it out: it is of a recording");
  if (source.model->family == ModelFamily::mlp)
    return fail(ErrorKind::usage,
                fmt::format("the inputs of {} have no sequence, whose length could vary", source.name),
                options.source.source.text, "plan one step of it: all its steps are alike");
  return {};
}

/// A recording's programs, and of a model those of any length. `adapted`: the workload at `settings`.
Result<std::unique_ptr<sim::ProgramSource>> programs_of(const ForecastOptions& options, const Planned& planned,
                                                        const Workload& adapted, const Settings& settings,
                                                        sim::WorkloadSource& workloads) {
  if (planned.source.model) return sim::model_programs(workloads, settings);
  const sim::BetweenOrders between = options.between == "lower"   ? sim::BetweenOrders::lower
                                     : options.between == "upper" ? sim::BetweenOrders::upper
                                                                  : sim::BetweenOrders::refuse;
  auto programs = sim::recorded_programs(adapted, settings, between);
  if (!programs && programs.error().where.empty()) programs.error().where = options.source.source.text;
  return programs;
}

std::vector<std::uint64_t> seeds_of(const ForecastOptions& options, const sim::Lengths& lengths) {
  std::vector<std::uint64_t> seeds;
  const std::uint32_t count = lengths.drawn() ? options.seeds.value_or(kSeeds) : 1;
  for (std::uint32_t i = 0; i < count; ++i) seeds.push_back(options.seed.value_or(1) + i);
  return seeds;
}

/// Of all seeds together.
Result<std::string> fingerprint_of(const ForecastOptions& options, const Planned& planned,
                                   const sim::ForecastRequest& request) {
  const auto machine = machine_digest(planned.machine_name);
  FORESHARD_TRY(machine);
  std::string question =
      fmt::format("forecast\nlengths {} pad {}\n{} steps, {} seeds from {} on\nbetween {}\n", options.lengths,
                  options.pad, request.steps, request.seeds.size(), request.seeds.front(), options.between);
  if (planned.memory_limit) question += fmt::format("memory limit {}\n", *planned.memory_limit);
  if (options.empty_cache > 0) question += fmt::format("empty cache {}\n", options.empty_cache);
  return fingerprint({workload_digest(planned.source, planned.workload), planned.settings, *machine, question});
}

/// Runs the seeds, of the request's part alone, or takes those that are known.
Result<std::vector<sim::SeedForecast>> run_seeds(const ForecastOptions& options, const std::string& fingerprint,
                                                 sim::ProgramSource& programs, sim::ForecastRequest& request,
                                                 Console& console) {
  if (options.parts.joins()) {
    auto known = join_parts<sim::SeedForecast>(options.parts.folder, fingerprint, request.seeds.size(),
                                               sim::parse_forecast_part);
    FORESHARD_TRY(known);
    request.known = std::move(*known);
  }
  Progress progress(console, "steps");
  const auto tell = [&](const char* what, std::size_t done, std::size_t all) {
    progress.says(what);
    progress.at(done, all);
  };
  request.on_made = [&](std::size_t done, std::size_t all) { tell("programs of lengths", done, all); };
  request.on_progress = [&](std::size_t done, std::size_t all) { tell("steps", done, all); };
  auto seeds = sim::run_forecast(programs, request);
  request.known.clear();
  request.on_made = {};
  request.on_progress = {};
  return seeds;
}

/// Writes a part, and says where the answer is to be had.
Result<int> keep_part(const ForecastOptions& options, const sim::Part& part, const std::string& fingerprint,
                      const std::vector<sim::SeedForecast>& seeds, Console& console) {
  FORESHARD_TRY(
      write_part(options.parts.folder, part, sim::forecast_part_text(part, fingerprint, seeds), options.force));
  if (options.json)
    print_json(console.out, part_json("forecast", written_part(options.parts, part, seeds.size()), fingerprint));
  else
    console.out << part_words(options.parts, written_part(options.parts, part, seeds.size()), "seeds") << '\n';
  return static_cast<int>(kDone);
}

/// What was asked for, before anything is run.
ForecastReport question(const ForecastOptions& options, const Planned& planned, const sim::Lengths& lengths,
                        std::size_t distinct) {
  ForecastReport report;
  report.source = options.source.source.text;
  report.name = planned.source.name;
  report.model_options = planned.source.model_options;
  report.of_model = planned.source.model.has_value();
  report.machine = planned.machine.name;
  report.lengths_text = options.lengths;
  report.lengths = lengths;
  report.steps = options.steps;
  report.distinct_lengths = distinct;
  report.pad = options.pad;
  report.empty_cache = options.empty_cache;
  if (!planned.source.model) report.between = options.between;
  report.alloc_conf = planned.settings.alloc_conf;
  report.limit = planned.memory_limit;
  report.capacity = sim::memory_options(planned.machine, planned.memory_limit).capacity;
  return report;
}

/// Whether the length that found no memory would do so alone.
Result<void> add_alone(const sim::ForecastRequest& request, sim::ProgramSource& programs, ForecastReport& report) {
  const sim::SeedForecast& worst = report.seeds[sim::worst_of(report.seeds)];
  if (!worst.out_of_memory || worst.out_of_memory->before_first) return {};
  auto alone = sim::find_longest_alone(programs, request, worst);
  FORESHARD_TRY(alone);
  report.alone = *alone;
  return {};
}

/// A forecast at other settings, from the same source.
Result<sim::SettingsForecast> forecast_at(const ForecastOptions& options, const Planned& planned,
                                          sim::WorkloadSource& workloads, const Settings& settings) {
  const auto workload = workloads.at(settings);
  FORESHARD_TRY(workload);
  auto adapted = adapt(**workload, settings);
  FORESHARD_TRY(adapted);
  auto programs = programs_of(options, planned, adapted->workload, settings, workloads);
  FORESHARD_TRY(programs);
  const auto memory =
      sim::process_memory_options(adapted->workload, settings, planned.machine, planned.memory_limit, false).memory;
  std::erase_if(adapted->warnings, [&](const std::string& warning) {  // what has no times has memory
    return std::find(adapted->time_unknown.begin(), adapted->time_unknown.end(), warning) !=
           adapted->time_unknown.end();
  });
  return sim::SettingsForecast{std::move(*programs), memory, std::move(adapted->warnings)};
}

/// The planned step at other settings, of a model's samples of `length`; of a recording of its own steps. Its time
/// alone, which no memory limit changes: the forecast says what fits.
std::optional<double> step_ms_at(const Planned& planned, sim::WorkloadSource& workloads, Settings settings,
                                 std::uint32_t length) {
  if (planned.source.model) settings.seq = length;
  const auto workload = workloads.at(settings);
  if (!workload) return std::nullopt;
  sim::PredictRequest request{settings, std::nullopt};
  request.threads = sim::hardware_threads();
  const auto p = sim::predict(**workload, planned.machine, request);
  return p && p->has_time ? std::optional(p->step_ms) : std::nullopt;
}

Result<void> add_remedies(const ForecastOptions& options, const Planned& planned, const Workload& workload,
                          const sim::ForecastRequest& request, sim::ProgramSource& programs,
                          sim::WorkloadSource& workloads, Console& console, ForecastReport& report) {
  if (options.no_remedies) return {};
  Progress progress(console, "simulating remedies, steps");
  sim::ForecastRemedyRequest wanted;
  wanted.forecast = request;
  wanted.settings = planned.settings;
  wanted.pad = options.pad;
  wanted.memory =
      sim::process_memory_options(workload, planned.settings, planned.machine, planned.memory_limit, false).memory;
  wanted.modules = sim::wrapped_modules(workload, planned.settings);
  wanted.at_settings = [&](const Settings& settings) { return forecast_at(options, planned, workloads, settings); };
  wanted.step_ms = [&](const Settings& settings, std::uint32_t length) {
    return step_ms_at(planned, workloads, settings, length);
  };
  wanted.step_follows_length = planned.source.model.has_value();
  wanted.on_progress = [&](std::size_t done, std::size_t all) { progress.at(done, all); };
  auto remedies = sim::find_forecast_remedies(programs, wanted, report.seeds);
  FORESHARD_TRY(remedies);
  report.remedies = std::move(*remedies);
  return {};
}

/// Of the run itself, before its remedies ask for other lengths.
void judge(const Planned& planned, const AllocatorConfig& config, const sim::ProgramSource& programs,
           ForecastReport& report) {
  report.notes = programs.notes();
  report.left_out = traces::left_out(planned.source, {{"--lengths", {report.lengths_text}}});
  if (config.garbage_collection_threshold > 0)
    report.notes.push_back(
        report.limit ? "garbage_collection_threshold works under set_per_process_memory_fraction, which --memory-limit "
                       "stands for here; a plan takes --memory-limit as the device's memory, where it does nothing"
                     : "garbage_collection_threshold does nothing without set_per_process_memory_fraction, which "
                       "--memory-limit stands for");
  report.not_valid = planned.source.warnings;
  const auto add = [&](const std::vector<std::string>& more) {
    report.not_valid.insert(report.not_valid.end(), more.begin(), more.end());
  };
  if (!planned.source.model) add(sim::memory_doubts(*planned.workload, planned.settings));
  add(programs.doubts());
  if (!planned.source.model && !planned.source.recorded)
    report.notes.push_back(
        "the source is a stored plan or a workload file, which has the program of its own length alone: of the model "
        "itself (a preset, a config.json) every length's is exact");
}

/// Of the seed that fares worst.
viz::StepMemoryPicture picture_of(const ForecastReport& report) {
  using Kind = viz::StepMark::Kind;
  const sim::SeedForecast& seed = report.seeds[sim::worst_of(report.seeds)];
  viz::StepMemoryPicture picture;
  picture.title = model_title(report.name, report.model_options) + " on " + report.machine;
  if (report.lengths.drawn()) picture.title += fmt::format(" · seed {}", seed.seed);
  if (report.lengths.drawn() && report.seeds.size() > 1)
    picture.title += fmt::format(", the worst of {}", report.seeds.size());
  if (!report.not_valid.empty()) picture.title += " · not valid";
  picture.headline = forecast_answer(report);
  picture.limit = report.capacity;
  std::vector<sim::StepUse> uses = seed.steps;
  if (seed.out_of_memory) uses.push_back(seed.out_of_memory->use);
  picture.each = std::max<std::size_t>(1, (uses.size() + kPictured - 1) / kPictured);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (i % picture.each == 0) picture.steps.emplace_back();
    viz::StepMemory& step = picture.steps.back();
    step.reserved = std::max(step.reserved, uses[i].peak_reserved);
    step.allocated = std::max(step.allocated, uses[i].peak_allocated);
  }
  for (const sim::GrowthStep& step : seed.growth)
    picture.marks.push_back({Kind::growth, step.step,
                             fmt::format("step {}, length {}: {} reserved; {} new segments, the largest for {} ({})",
                                         step.step, step.length, format_bytes(step.reserved), step.segments,
                                         step.request, format_bytes(step.largest_request))});
  for (const sim::RetryStep& step : seed.retries)
    picture.marks.push_back(
        {Kind::retry, step.step,
         fmt::format("step {}, length {}: {}, {} given back, first for {} ({})", step.step, step.length,
                     counted(step.retries, "retry", "retries"), counted(step.released, "segment", "segments"),
                     step.request, format_bytes(step.bytes))});
  if (seed.out_of_memory)
    picture.marks.push_back(
        {Kind::out_of_memory, seed.out_of_memory->step,
         fmt::format("length {}: {} asked for {}", seed.out_of_memory->length, seed.out_of_memory->request,
                     format_bytes(seed.out_of_memory->report.requested))});
  return picture;
}

/// Of the steps that the seed which fares worst came to.
std::uint32_t longest_length(const ForecastReport& report) {
  const sim::SeedForecast& seed = report.seeds[sim::worst_of(report.seeds)];
  return report.lengths.distinct(seed.seed, seed.steps.size() + (seed.out_of_memory ? 1 : 0)).back();
}

/// The forecast beside the plan of one step at the longest length that was run; of a recording of its own steps.
Result<void> store_forecast(const ForecastOptions& options, const ForecastReport& report, Planned planned,
                            sim::WorkloadSource& workloads) {
  if (planned.source.model) planned.settings.seq = longest_length(report);
  const auto workload = workloads.at(planned.settings);
  FORESHARD_TRY(workload);
  planned.workload = *workload;
  auto p = predict_planned(planned, {});
  FORESHARD_TRY(p);
  Json json = prediction_json(report.source, basis_of(planned), **workload, *p);
  json["forecast"] = forecast_json(report);
  json[std::string(kStepMemoryResult)] = step_memory_json(picture_of(report));
  return store_run(json, **workload, options.picture, options.force, p->run);
}

Result<void> write_outputs(const ForecastOptions& options, const ForecastReport& report, const Planned& planned,
                           sim::WorkloadSource& workloads) {
  if (!options.csv.empty()) FORESHARD_TRY(write_text(options.csv, forecast_csv(report), options.force));
  if (options.picture.ends_with(".db")) return store_forecast(options, report, planned, workloads);
  if (!options.picture.empty())
    FORESHARD_TRY(write_text(options.picture, viz::draw_memory_over_steps(picture_of(report)), options.force));
  return {};
}

Result<int> forecast(ForecastOptions& options, Console& console) {
  auto lengths = read_lengths(options.lengths);
  FORESHARD_TRY(lengths);
  FORESHARD_TRY(check_options(options, *lengths));
  const auto part = options.parts.wanted();
  FORESHARD_TRY(part);
  FORESHARD_TRY(split_seeds(options, *part, *lengths));
  const sim::Lengths padded = lengths->padded(options.pad);
  const std::vector<std::uint64_t> seeds_wanted = seeds_of(options, padded);
  const auto distinct = check_size(padded, options.steps, seeds_wanted);
  FORESHARD_TRY(distinct);
  const auto planned = read_planned(options.source, options.setting_options, options.memory_limit, console);
  FORESHARD_TRY(planned);
  FORESHARD_TRY(check_source(options, planned->source));
  const auto adapted = adapt(*planned->workload, planned->settings);
  FORESHARD_TRY(adapted);
  const auto workloads = traces::workloads_of(planned->source, planned->machine);
  auto programs = programs_of(options, *planned, adapted->workload, planned->settings, *workloads);
  if (!programs) return tl::unexpected(options.setting_options.with_file(programs.error()));
  auto process = forecast_process(*planned, planned->settings, adapted->workload);
  FORESHARD_TRY(process);
  process->empty_cache_every = options.empty_cache;

  ForecastReport report = question(options, *planned, padded, *distinct);
  sim::ForecastRequest request{padded, options.steps, seeds_wanted, *process};
  request.threads = options.jobs == 0 ? sim::hardware_threads() : options.jobs;
  if (*part) request.part = **part;
  const auto known = fingerprint_of(options, *planned, request);
  FORESHARD_TRY(known);
  auto seeds = run_seeds(options, *known, **programs, request, console);
  FORESHARD_TRY(seeds);
  if (*part) return keep_part(options, **part, *known, *seeds, console);
  report.seeds = std::move(*seeds);
  judge(*planned, process->options.config, **programs, report);
  FORESHARD_TRY(add_alone(request, **programs, report));
  FORESHARD_TRY(add_remedies(options, *planned, adapted->workload, request, **programs, *workloads, console, report));
  report.warnings = adapted->warnings;
  if (options.json)
    print_json(console.out, forecast_json(report));
  else
    print_forecast(console.out, report);
  console.out.flush();
  for (const std::string& warning : report.warnings) console.warn(warning);
  FORESHARD_TRY(write_outputs(options, report, *planned, *workloads));
  return runs_out_of_memory(report) ? static_cast<int>(ErrorKind::out_of_memory) : static_cast<int>(kDone);
}

}  // namespace

Action add_forecast(OptionSet& set) {
  auto options = std::make_shared<ForecastOptions>();
  options->source.add_to(set);
  options->source.add_lowering_to(set);
  set.add_option(
         "--lengths", options->lengths,
         "sequence length of each step: a file with one a line, a histogram 512:10,1024:5, uniform:256..2048, or "
         "lognormal:MEDIAN,SIGMA,256..2048")
      .type_name("FILE|HISTOGRAM")
      .required();
  set.add_option("--steps", options->steps, "training steps; default 10000").type_name("N").range(1U, kMaxSteps);
  set.add_option("--seed", options->seed, "first seed of drawn lengths; default 1").type_name("N");
  set.add_option("--seeds", options->seeds, "how many seeds, one training run each; default 4")
      .type_name("K")
      .range(1U, static_cast<unsigned>(sim::kMaxSeeds));
  set.add_option("--pad", options->pad, "pad each length to a multiple; default 1").type_name("N").range(1U, 65536U);
  set.add_option("--empty-cache", options->empty_cache, "torch.cuda.empty_cache() behind every N steps; default never")
      .type_name("N");
  set.add_option("--between", options->between,
                 "of a recording, a length between two whose steps ask in different orders: refuse it, or take the "
                 "shorter (lower) or longer (upper) one's order; default refuse")
      .one_of({"refuse", "lower", "upper"});
  add_parsed<Bytes>(set, "--memory-limit", options->memory_limit, &parse_bytes,
                    "what the caching allocator may take, as torch.cuda.set_per_process_memory_fraction says it (a "
                    "plan's is the device's memory); default: a stored plan's, else the machine's")
      .type_name("SIZE");
  set.add_option("--jobs", options->jobs, "threads; default: every core").type_name("N").range(1U, 1024U);
  set.add_option("--csv", options->csv, "write memory behind every step of each seed as comma-separated values")
      .type_name("FILE")
      .writes();
  set.add_option("-o,--output", options->picture,
                 "write memory over all steps, of the seed that fares worst, as a picture, or to a store for `view`")
      .type_name("FILE.svg|RUN.db")
      .writes();
  set.add_flag(kNoRemedies, options->no_remedies, "only forecast, simulate no remedies");
  set.add_flag("--force", options->force, "write over existing files");
  set.add_flag("--json", options->json, "as JSON");
  options->parts.add_to(set, "seeds");
  options->setting_options.add_to(set, "seq");
  return [options](Console& console) { return forecast(*options, console); };
}

}  // namespace foreshard::cli
