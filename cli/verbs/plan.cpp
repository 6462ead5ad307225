// `foreshard plan SOURCE [options]`: predicts one steady-state step.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/beside_option.hpp"
#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/options/part_options.hpp"
#include "cli/options/planning.hpp"
#include "cli/options/rank_options.hpp"
#include "cli/reports/fingerprint.hpp"
#include "cli/reports/prediction_report.hpp"
#include "cli/reports/store_run.hpp"
#include "cli/terminal/freed_memory.hpp"
#include "cli/verbs/drawn_memory.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/units.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/ranks/trials_part.hpp"
#include "sim/sweep/remedies.hpp"
#include "sim/sweep/upgrade.hpp"

namespace foreshard::cli {
namespace {

struct PlanOptions {
  SourceOptions source;
  SettingOptions setting_options;
  RankOptions ranks;
  BesideOption beside;
  PartsOptions parts;
  std::optional<Bytes> memory_limit;
  std::string output;
  std::string name;
  bool force = false;
  bool detail = false;
  bool json = false;
};

/// Changes of settings that would let it run, each simulated: of ranks that have lengths of their own, as if all had
/// the longest one.
Result<sim::Remedies> what_fits(const Planned& planned, const sim::Differences& ranks, Console& console) {
  const auto workloads = traces::workloads_of(planned.source, planned.machine);
  Progress progress(console, "simulating what would fit");
  sim::RemedyRequest request{planned.settings, planned.memory_limit, sim::hardware_threads(),
                             [&](std::size_t done, std::size_t all) { progress.at(done, all); }};
  for (const sim::RankDifference& rank : ranks.ranks)
    if (rank.seq > request.settings.seq.value_or(0)) request.settings.seq = rank.seq;
  auto found = sim::find_remedies(*workloads, planned.machine, request);
  if (found && ranks.lengths_differ())
    std::erase_if(found->useful, [&](const sim::Remedy& one) { return one.settings.seq != request.settings.seq; });
  return found;
}

/// Whether a rank that has not the others' program, by its source or its extra products, is the one that does not fit.
bool own_program_fails(const sim::Differences& ranks, const sim::Prediction& p) {
  return std::any_of(ranks.ranks.begin(), ranks.ranks.end(), [&](const sim::RankDifference& rank) {
    return rank.rank == p.told_rank && (rank.gemms || (rank.workload != nullptr && rank.seq == 0));
  });
}

/// Why a plan is not compared with that of another version; empty: it is.
std::string not_compared(const sim::Prediction& p) {
  if (p.deadlock) return "this plan deadlocks";
  if (p.out_of_memory || p.lengths_run_out() || runs_out_later(p)) return "this plan runs out of memory";
  if (!p.ranks.empty()) return "ranks that differ are planned under one version only; plan without them to see";
  return {};
}

/// Of a recording of another PyTorch version than the wanted one: what that moves, or a line in `why_not`.
std::optional<sim::Upgrade> what_upgrading_moves(const Planned& planned, const sim::Prediction& p,
                                                 std::string& why_not) {
  const std::string& from = planned.source.settings.pytorch;
  const std::string& to = planned.settings.pytorch;
  if (sim::from_model(*planned.workload) || from == to) return std::nullopt;
  const auto none = [&](const std::string& why) {
    why_not = fmt::format("PyTorch {} -> {}: what that moves is not told: {}", from, to, why);
    return std::nullopt;
  };
  if (const std::string why = not_compared(p); !why.empty()) return none(why);
  sim::PredictRequest request{planned.settings, planned.memory_limit};
  request.threads = sim::hardware_threads();
  auto found = sim::find_upgrade(*planned.workload, planned.machine, request, from, p);
  if (!found) return none(found.error().what);
  return std::move(*found);
}

/// Only trials with jitter are split.
Result<void> split_trials(const PlanOptions& options, const std::optional<sim::Part>& part,
                          const std::optional<sim::TrialsRequest>& trials, bool flapping, bool lengths) {
  if (!part && !options.parts.joins()) return {};
  if (flapping)
    return fail(ErrorKind::usage, "trials of links that flap are not split over tasks", part ? "--part" : "--parts",
                "leave it out: they run on all cores of one machine; fewer --trials take less");
  if (lengths)
    return fail(ErrorKind::usage, "trials of drawn lengths are not split over tasks", part ? "--part" : "--parts",
                "leave it out: they run on all cores of one machine; fewer --trials take less");
  if (!trials)
    return fail(ErrorKind::usage, "a plan without trials is not split", part ? "--part" : "--parts",
                "give --jitter and --trials, or leave it out");
  if (part && !options.output.empty())
    return fail(ErrorKind::usage, "a part of the trials is no run", "--output",
                "give -o where all parts are read, without --part");
  return {};
}

/// Writes a part of the trials, and says where the answer is to be had.
Result<int> keep_part(const PlanOptions& options, const sim::Part& part, const sim::Prediction& p,
                      const std::string& fingerprint, Console& console) {
  if (p.part_of_trials.empty())
    return fail(ErrorKind::usage, "this plan has no step whose trials could be simulated", "--part",
                "plan it without --jitter: it says why");
  const std::size_t trials = p.part_of_trials.size();
  FORESHARD_TRY(write_part(options.parts.folder, part, sim::trials_part_text(part, fingerprint, p.part_of_trials),
                           options.force));
  if (options.json)
    print_json(console.out, part_json("plan", written_part(options.parts, part, trials), fingerprint));
  else
    console.out << part_words(options.parts, written_part(options.parts, part, trials), "trials") << '\n';
  return static_cast<int>(kDone);
}

/// Where the plan runs out of memory; none where it does not, where drawn_fit() has it, and, with a warning, where that
/// was not found out.
std::optional<sim::Remedies> what_fits_instead(const Planned& planned, const sim::Differences& ranks,
                                               const sim::Prediction& p, Console& console) {
  if (!p.out_of_memory || p.drawn_memory) return std::nullopt;
  if (own_program_fails(ranks, p)) {
    console.note(fmt::format("what would fit was not simulated: rank {} runs a program of its own", p.told_rank));
    return std::nullopt;
  }
  auto found = what_fits(planned, ranks, console);
  if (found) return std::move(*found);
  console.warn("what would fit was not found out: " + found.error().text());
  return std::nullopt;
}

/// What lengths that vary make the allocator reserve, which the plan of the longest samples does not say; where one of
/// the two runs out of memory, what would fit.
Result<void> add_drawn_memory(const PlanOptions& options, const Planned& planned, sim::Prediction& p,
                              Console& console) {
  const std::optional<sim::Lengths>& lengths = options.ranks.distribution();
  if (!lengths || (!p.trials && !p.out_of_memory)) return {};
  const DrawnJob job{planned, *lengths, options.ranks.seed(), p.longest_drawn};
  const auto memory = drawn_memory(job, console);
  FORESHARD_TRY(memory);
  p.drawn_memory = *memory;
  if (p.out_of_memory || p.lengths_run_out()) {
    p.drawn_memory->fit = drawn_fit(job, console);
    p.has_time = false;
    p.utilization = {};
    p.trials.reset();
    return {};
  }
  if (memory->num_alloc_retries > 0) {
    p.valid = false;
    p.warnings.push_back(fmt::format(
        "{} of lengths that vary in {} processes of {} steps: what the driver's calls take, {:.2f} ms a step "
        "in the mean of all, is in no time",
        memory->num_alloc_retries == 1 ? "a retry" : fmt::format("{} retries", memory->num_alloc_retries),
        memory->processes, memory->steps, memory->driver_ms / static_cast<double>(memory->processes * memory->steps)));
    p.not_valid.push_back(p.warnings.back());
  }
  return {};
}

/// The stored run is of the longest samples alone, which fit also where drawn ones do not.
Result<void> keep_run(const PlanOptions& options, Json json, const Workload& workload, sim::Prediction& p) {
  json["out_of_memory"] = p.out_of_memory.has_value();
  return store_run(json, workload, options.output, options.force, p.run);
}

Result<int> plan(PlanOptions& options, Console& console) {
  keep_freed_memory();
  if (!options.name.empty() && options.output.empty())
    return fail(ErrorKind::usage, "--name names the run that -o writes", "--name", "leave it out, or give -o RUN");
  if (!options.output.empty()) FORESHARD_TRY(may_write(options.output, options.force));
  auto planned = read_planned(options.source, options.setting_options, options.memory_limit, console);
  FORESHARD_TRY(planned);
  const auto lengths = options.ranks.lengths(options.setting_options, *planned, console);
  FORESHARD_TRY(lengths);
  auto ranks = options.ranks.read(options.source, *planned, console);
  FORESHARD_TRY(ranks);
  const auto trials = options.ranks.trials(options.source, *planned, console);
  FORESHARD_TRY(trials);
  const auto kept = options.ranks.kept(*planned, *ranks, console);
  FORESHARD_TRY(kept);
  const auto beside = options.beside.read(options.source, *planned, *ranks, console);
  FORESHARD_TRY(beside);
  const auto flapping = options.ranks.flapping(*planned, *ranks, console);
  FORESHARD_TRY(flapping);
  FORESHARD_TRY(options.ranks.check_drawn(*ranks, beside->has_value()));
  planned->job_options = options.ranks.given(*ranks, *trials, *flapping);
  options.beside.add_given(planned->job_options);
  const auto part = options.parts.wanted();
  FORESHARD_TRY(part);
  FORESHARD_TRY(split_trials(options, *part, *trials, flapping->has_value(), lengths->has_value()));
  if (*part) FORESHARD_TRY(may_write_part(options.parts.folder, **part, options.force));
  const auto known = plan_fingerprint(*planned, *ranks, *trials, *kept, *beside, *flapping, *lengths);
  FORESHARD_TRY(known);
  auto wanted = *trials;
  if (*part) wanted->part = **part;
  if (options.parts.joins()) {
    auto joined = join_parts<sim::Trial>(options.parts.folder, *known, wanted->trials, sim::parse_trials_part);
    FORESHARD_TRY(joined);
    wanted->known = std::move(*joined);
  }
  auto p = predict_planned(*planned, options.name, *ranks, wanted, *kept, *beside, *flapping, *lengths);
  if (!p) return tl::unexpected(options.setting_options.with_file(p.error()));
  if (*beside && p->out_of_memory)
    console.note("--beside: a job that runs out of memory has no step that another one could lengthen");
  if (*flapping && p->out_of_memory)
    console.note("a job that runs out of memory has no step that a link which flaps could lengthen");
  if (*part) return keep_part(options, **part, *p, *known, console);
  FORESHARD_TRY(add_drawn_memory(options, *planned, *p, console));
  keep_fingerprint(p->run, *known);
  const std::optional<sim::Remedies> remedies = what_fits_instead(*planned, *ranks, *p, console);
  const sim::Remedies* fitting = remedies ? &*remedies : nullptr;
  std::string no_upgrade;
  const auto upgrade = what_upgrading_moves(*planned, *p, no_upgrade);
  PlanBasis basis = basis_of(*planned);
  basis.upgrade = upgrade ? &*upgrade : nullptr;
  basis.no_upgrade = no_upgrade;
  Json json;  // of the text none is needed
  if (options.json || !options.output.empty())
    json = prediction_json(options.source.source.text, basis, *planned->workload, *p, fitting);
  if (!options.output.empty()) FORESHARD_TRY(keep_run(options, json, *planned->workload, *p));
  if (options.json)
    print_json(console.out, json);
  else
    print_prediction(console, basis, *p, options.detail, fitting);
  if (!options.json && remedies) print_what_fits(console, *p, *remedies);
  console.out.flush();
  // The answer has said why it is not valid.
  for (const std::string& warning : p->warnings)
    if (options.json || std::find(p->not_valid.begin(), p->not_valid.end(), warning) == p->not_valid.end())
      console.warn(warning);
  report_failure(console, *p);
  if (p->out_of_memory || p->lengths_run_out() || runs_out_later(*p)) return static_cast<int>(ErrorKind::out_of_memory);
  return p->deadlock || p->link_ends_job() ? static_cast<int>(ErrorKind::deadlock) : static_cast<int>(kDone);
}

}  // namespace

Action add_plan(OptionSet& set) {
  auto options = std::make_shared<PlanOptions>();
  options->source.add_to(set);
  options->source.add_lowering_to(set);
  add_parsed<Bytes>(set, "--memory-limit", options->memory_limit, &parse_bytes,
                    "what the caching allocator may take; default: a stored plan's, else the machine's")
      .type_name("SIZE");
  set.add_option("-o,--output", options->output, "write the whole simulated run to a store").type_name("RUN").writes();
  set.add_option("--name", options->name, "name of the run").type_name("NAME");
  set.add_flag("--force", options->force, "write over an existing store");
  set.add_flag("--detail", options->detail,
               "all peaks and times, what each collective runs as, what the interval rests on");
  set.add_flag("--json", options->json, "as JSON");
  options->setting_options.add_to(set);
  options->ranks.add_to(set);
  options->beside.add_to(set);
  options->parts.add_to(set, "trials");
  return [options](Console& console) { return plan(*options, console); };
}

}  // namespace foreshard::cli
