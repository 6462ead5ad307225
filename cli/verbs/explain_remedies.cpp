#include "cli/verbs/explain_remedies.hpp"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "accuracy/promises.hpp"
#include "cli/options/fabric_option.hpp"
#include "cli/options/kept_calibration.hpp"
#include "cli/options/lengths_option.hpp"
#include "cli/options/options.hpp"
#include "cli/options/source_options.hpp"
#include "cli/reports/plan_command.hpp"
#include "cli/reports/run_summary.hpp"
#include "cli/reports/stored_trials.hpp"
#include "cli/reports/time_answer.hpp"
#include "cli/verbs/drawn_memory.hpp"
#include "core/allocator/config.hpp"
#include "core/base/json_io.hpp"
#include "core/base/shell_word.hpp"
#include "core/base/units.hpp"
#include "core/run/plan_results.hpp"
#include "sim/machine/address_space.hpp"
#include "sim/machine/profile.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/predict.hpp"
#include "traces/workload_source/workload_source.hpp"

namespace foreshard::cli {
namespace {

/// Remedies are compared with the run's own settings, simulated: where that is not what the run was, it is said.
void warn_of_difference(const ExplainReport& report, Console& console) {
  if (report.explanation.steps.empty() || report.memory_limit) return;  // that is said first
  const Bytes was = report.explanation.steps.back().peaks.reserved;
  const Bytes is = report.remedies->before.reserved;
  const double difference = static_cast<double>(is) - static_cast<double>(was);
  if (std::abs(difference) <= accuracy::kPromises.clocked * static_cast<double>(was)) return;
  console.warn(
      fmt::format("the run's own settings simulate to a peak of {} reserved, where it was {}: savings count from the "
                  "former",
                  format_bytes(is), format_bytes(was)));
}

/// The machine's memory, or what the plan that is explained was made with.
Result<std::optional<Bytes>> remedy_limit(const RemedyOptions& options, const Run& run,
                                          const sim::MachineProfile& machine) {
  std::optional<Bytes> planned;
  if (run.info.kind == RunKind::planned)
    if (const auto capacity = result_number(run, "memory_capacity_bytes")) planned = static_cast<Bytes>(*capacity);
  return memory_limit_of(options.memory_limit, planned, options.machine, machine);
}

/// As `plan` makes it of the run's store: of a plan with its own settings.
traces::Source source_of(std::shared_ptr<const Workload> workload, const RemedyOptions& options, const Run& run) {
  traces::Source source;
  source.name = workload->name;
  source.settings = run.info.kind == RunKind::imported ? workload->settings : run.settings;
  source.lowering = workload->lowering;
  if (run.info.kind != RunKind::imported)
    source.preset = traces::stored_preset(source.name, plan_text(run, "model_options"));
  source.workload = std::move(workload);
  source.host_scale = kept_host_scale(machine_named(options.machine, run.info.machine), run);
  return source;
}

/// The options of `plan` that take the machine and the memory that remedies are simulated with; a stored plan's limit
/// is in its store.
std::string options_of_plan(const RemedyOptions& options, const sim::MachineProfile& machine) {
  std::string out;
  if (!options.machine.empty()) out = "--machine " + shell_word(options.machine);
  if (options.memory_limit && *options.memory_limit != sim::memory_options(machine, {}).capacity)
    out += fmt::format("{}--memory-limit {}", out.empty() ? "" : " ", size_value(*options.memory_limit));
  return out;
}

/// Whether these are the model's at any batch size; else they are of the stored program, whose own it is.
bool makes_other_sizes(sim::WorkloadSource& workloads, Settings settings) {
  settings.batch = settings.batch.value_or(1) + 1;
  const auto made = workloads.at(settings);
  return made && (*made)->settings.batch == settings.batch;
}

constexpr const char* kRanksDiffer =
    "this plan's ranks differ (--slow-gpu and the like), and remedies are of ranks that are alike; plan the change "
    "with "
    "the same options";

/// Why no change of settings is simulated for this run; empty: changes are.
std::string no_remedies_of(const Run& run) {
  if (!plan_end(run).empty())
    return "no change of settings keeps this job from its end: what needs mending is the rank or the link that ends it";
  // Of one that ran out of memory on a rank with a program of its own the others' is kept.
  return run.info.kind == RunKind::planned && (!run.ranks.empty() || out_of_memory_rank(run)) ? kRanksDiffer : "";
}

/// Whether processes that reserved this under their plan's limit reserve something else under `capacity`.
bool shaped_by_limit(const sim::DrawnMemory& drawn, const Run& run, Bytes capacity) {
  const auto config = parse_alloc_conf(run.settings.alloc_conf, run.settings.pytorch);
  const bool collects = !config || config->garbage_collection_threshold > 0;  // by a share of the limit
  return collects || drawn.num_alloc_retries > 0 || drawn.out_of_memory > 0 || drawn.most > capacity;
}

}  // namespace

Result<sim::MachineProfile> machine_of_run(const std::string& asked, const Run& run) {
  auto machine = machine_of(asked, run.info.machine);
  if (!machine || !asked.empty() || run.info.kind != RunKind::planned) return machine;
  // The topology of a machine that is not built in says nothing of the one that stands in for it.
  if (const auto stored = run.results.find("topology");
      stored != run.results.end() && machine_note(run.info.machine).empty()) {
    Topology topology = stored_topology(stored->second);
    FORESHARD_TRY(put_on(*machine, topology));
  }
  const auto kept = run.results.find("fabric");
  if (kept == run.results.end()) return machine;
  const nlohmann::json fabric = parse_json_text(kept->second);
  if (fabric.is_string()) FORESHARD_TRY(set_fabric(fabric.get<std::string>(), machine->network));
  return machine;
}

Result<sim::Prediction> plan_where_recorded(const Workload& workload, const RemedyOptions& options, const Run& run) {
  const auto plan_on = [&](const std::string& name) -> Result<sim::Prediction> {
    const auto machine = machine_of_run(name, run);
    FORESHARD_TRY(machine);
    const auto limit = remedy_limit(options, run, *machine);
    FORESHARD_TRY(limit);
    return sim::predict(workload, *machine,
                        {run.settings, *limit, 4, kept_host_scale(machine_named(name, run.info.machine), run)});
  };
  auto planned = plan_on(options.machine);
  if (options.machine.empty() || !planned || planned->recorded_on.empty()) return planned;
  return plan_on({});
}

std::optional<sim::Prediction> plan_of_drawn(std::shared_ptr<const Workload> workload, const RemedyOptions& options,
                                             const Run& run, Console& console) {
  const auto stored = stored_drawn_memory(run);
  if (!options.memory_limit || !stored) return std::nullopt;
  const auto machine = machine_of_run(options.machine, run);
  if (!machine) return std::nullopt;  // remedies say so
  const auto limit = remedy_limit(options, run, *machine);
  if (!limit) return std::nullopt;
  Planned planned;
  planned.source = source_of(std::move(workload), options, run);
  planned.settings = run.settings;
  planned.machine = *machine;
  planned.memory_limit = *limit;
  const auto program = traces::workloads_of(planned.source, planned.machine)->at(planned.settings);
  if (!program) return std::nullopt;
  planned.workload = *program;
  auto p = predict_planned(planned, {});
  if (!p) return std::nullopt;
  p->longest_drawn = run.settings.seq.value_or(0);
  p->drawn_memory = *stored;
  const auto lengths = stored_lengths(job_options(run.results));
  if (shaped_by_limit(*stored, run, p->memory_capacity)) {
    if (!lengths) return std::nullopt;
    const auto memory = drawn_memory({planned, *lengths, stored->seed, p->longest_drawn}, console);
    if (!memory) return std::nullopt;
    p->drawn_memory = *memory;
  }
  if (lengths && (p->out_of_memory || p->lengths_run_out()))
    p->drawn_memory->fit = drawn_fit({planned, *lengths, stored->seed, p->longest_drawn}, console);
  return std::move(*p);
}

Result<void> add_remedies(std::shared_ptr<const Workload> workload, const RemedyOptions& options, Console& console,
                          ExplainReport& report) {
  if (report.no_remedies = no_remedies_of(report.run); !report.no_remedies.empty()) return {};
  const std::string& of_run = report.run.info.machine;
  const auto machine = machine_of_run(options.machine, report.run);
  if (!machine && options.machine.empty()) {
    report.no_remedies = "the run's machine cannot be had: " + machine.error().what;
    return {};
  }
  FORESHARD_TRY(machine);
  report.machine = machine->name;
  report.machine_note =
      options.machine.empty() ? machine_note(of_run) : host_note(of_run, workload->lowering, *machine);
  Progress progress(console, "simulating remedies");
  const traces::Source source = source_of(std::move(workload), options, report.run);
  const auto limit = remedy_limit(options, report.run, *machine);
  FORESHARD_TRY(limit);
  const auto workloads = traces::workloads_of(source, *machine);
  report.of_model = report.run.info.kind == RunKind::planned && sim::from_model(*source.workload) &&
                    !makes_other_sizes(*workloads, report.run.settings);
  auto remedies = sim::find_remedies(*workloads, *machine,
                                     {report.run.settings, *limit, sim::hardware_threads(),
                                      [&](std::size_t done, std::size_t all) { progress.at(done, all); }});
  if (!remedies) {
    report.no_remedies = "the run's own settings cannot be predicted: " + remedies.error().what;
    return {};
  }
  report.remedies = std::move(*remedies);
  warn_of_difference(report, console);
  return {};
}

Result<void> add_time_remedies(std::shared_ptr<const Workload> workload, const RemedyOptions& options, Console& console,
                               TimeReport& report) {
  if (report.no_remedies = no_remedies_of(report.run); !report.no_remedies.empty()) return {};
  const std::string& of_run = report.run.info.machine;
  const auto machine = machine_of_run(options.machine, report.run);
  if (!machine && options.machine.empty()) {
    report.no_remedies = "the run's machine cannot be had: " + machine.error().what;
    return {};
  }
  FORESHARD_TRY(machine);
  report.machine = machine->name;
  report.machine_note =
      options.machine.empty() ? machine_note(of_run) : host_note(of_run, workload->lowering, *machine);
  Progress progress(console, "simulating remedies");
  const traces::Source source = source_of(std::move(workload), options, report.run);
  const auto limit = remedy_limit(options, report.run, *machine);
  FORESHARD_TRY(limit);
  if (options.from_store) report.source = RemedySource{options_of_plan(options, *machine), source.settings};
  auto remedies = sim::find_time_remedies(*traces::workloads_of(source, *machine), *machine,
                                          {report.run.settings, *limit, sim::hardware_threads(),
                                           [&](std::size_t done, std::size_t all) { progress.at(done, all); }});
  if (remedies)
    report.remedies = std::move(*remedies);
  else
    report.no_remedies = "the run's own settings cannot be predicted: " + remedies.error().what;
  return {};
}

void add_clean_step(const Workload* workload, const RemedyOptions& options, TimeReport& report) {
  const auto clean = clean_step_ms(report.run, report.time);
  if (!clean) return;
  report.clean = CleanStep{*clean};
  report.clean->no_plan = report.no_remedies;
  if (workload == nullptr) return;
  auto planned = plan_where_recorded(*workload, options, report.run);
  auto time = planned ? explain_time(planned->run) : tl::unexpected(planned.error());
  if (!time)
    report.clean->no_plan = time.error().what;
  else if (!planned->has_time || !planned->recorded_on.empty())
    report.clean->no_plan =
        planned->has_time ? "there is no profile of " + planned->recorded_on : "the workload has no times";
  else
    report.clean->time = std::move(*time);
  if (planned) report.clean->run = std::move(planned->run);
}

}  // namespace foreshard::cli
