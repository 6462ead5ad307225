#include "sim/predict/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/adapt/adapt.hpp"
#include "core/allocator/config.hpp"
#include "core/base/units.hpp"
#include "core/run/rank_shapes.hpp"
#include "core/run/stretch.hpp"
#include "core/settings/carried_out.hpp"
#include "core/settings/settings_names.hpp"
#include "core/settings/settings_table.hpp"
#include "core/step/graph_schedule.hpp"
#include "sim/compute/measured.hpp"
#include "sim/machine/address_space.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/adapted_ranks.hpp"
#include "sim/predict/bound_by.hpp"
#include "sim/predict/busy_time.hpp"
#include "sim/predict/confidence.hpp"
#include "sim/predict/cuda_graph.hpp"
#include "sim/predict/difference_costs.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/length_trials.hpp"
#include "sim/predict/plan_host.hpp"
#include "sim/predict/plan_memory.hpp"
#include "sim/predict/plan_times.hpp"
#include "sim/predict/price_sections.hpp"
#include "sim/predict/reprice.hpp"
#include "sim/predict/simulate.hpp"
#include "sim/predict/simulate_ranks.hpp"
#include "sim/predict/throughput.hpp"

namespace foreshard::sim {
namespace {

constexpr Bytes kSmallestLimit = 2 * kMiB;  // the smallest segment (caching allocator 2.2)

/// Fails where host_of_plan() does.
Result<SimulationRequest> simulation_of(const Workload& workload, const PredictRequest& request,
                                        const MachineProfile& machine, const HostScale& scale) {
  SimulationRequest out;
  out.steps.steps = request.steps + steps_before_replay(request.settings);
  out.steps.synchronized = 1;
  out.steps.record = !request.memory_only && (!request.step_alone || request.keep_run);
  out.steps.ops_alone = request.ops_alone;
  out.steps.counts_events = !workload.has_timing;
  out.follow_recording = request.follow_recording;
  out.memory_limit = request.memory_limit;
  out.threads = request.threads;
  out.kept_ranks = request.kept_ranks;
  const auto host = host_of_plan(workload, request.settings, machine, out, scale);
  FORESHARD_TRY(host);
  out.options.host_scale = *host;
  return out;
}

/// The workload's times become the machine's.
void move_to(const MachineProfile& machine, const RecordedElsewhere& elsewhere, const std::string& pytorch,
             Workload& workload, Prediction& p) {
  p.recorded_on = elsewhere.profile ? elsewhere.profile->name : elsewhere.gpu;
  p.host = HostConfidence::elsewhere;
  if (elsewhere.profile) p.repriced = reprice(workload, *elsewhere.profile, machine, pytorch);
}

/// What the recording has no times of gets the machine's; none: it has all of its own, or they are not known.
std::optional<PricedSections> exchange_sections(const Workload& recorded, const MachineProfile& machine,
                                                const Settings& settings, Workload& adapted, Prediction& p) {
  if (!exchanges_sections(recorded, settings)) return std::nullopt;
  auto priced = price_sections(adapted, settings, machine, p.host_scale.factor);
  if (!priced) {
    p.time_unknown.push_back(priced.error().what);
    estimate(priced.error().what, p);
    return std::nullopt;
  }
  if (!from_model(recorded)) p.warnings.insert(p.warnings.end(), priced->warnings.begin(), priced->warnings.end());
  return std::move(*priced);
}

/// Whether the plan is valid only where the host does not bind it: what the recorded one took for FSDP2's calls was
/// exchanged.
bool exchanges_host_calls(const Workload& recorded, const Settings& settings) {
  return exchanges_shard_copies(recorded, settings) && !from_model(recorded);
}

void judge_host_calls(const Workload& recorded, const Settings& settings, Prediction& p) {
  if (p.host_bound && exchanges_host_calls(recorded, settings))
    estimate(
        "host-bound, and the recorded host ran FSDP2's calls of another kind of shard group (one rank, or several): "
        "steps planned so were missed by more than their interval (docs/accuracy.md)",
        p);
}

void add_info(const Workload& workload, const MachineProfile& machine, const Settings& settings, Prediction& p) {
  p.run.info.kind = RunKind::planned;
  p.run.info.name = workload.name;
  p.run.info.torch = workload.torch;
  p.run.info.gpu = workload.gpu;
  p.run.info.sm_count = workload.sm_count;
  p.run.info.machine = machine.name;
  p.run.info.valid = p.valid;
  p.run.info.warnings = p.warnings;
  p.run.settings = settings;
}

/// Of a rank whose own program takes more memory than rank 0's, which the peaks are of.
void judge_memory(const std::vector<RankDifference>& differences, const RankSimulation& ranks, Prediction& p) {
  if (p.told_rank > 0) return;  // the peaks are that rank's
  const auto most = std::max_element(ranks.reserved.begin(), ranks.reserved.end());
  const auto workload = static_cast<std::size_t>(most - ranks.reserved.begin());
  if (workload == 0) return;
  std::vector<const Workload*> seen;
  for (const RankDifference& difference : differences) {
    if (difference.workload == nullptr || std::find(seen.begin(), seen.end(), difference.workload) != seen.end())
      continue;
    seen.push_back(difference.workload);
    if (seen.size() == workload && difference.rank > 0)
      p.warnings.push_back(fmt::format("the peaks are rank 0's; rank {} {} {}", difference.rank,
                                       ranks.out_of_memory_workload ? "runs out of memory beyond" : "reserves",
                                       format_bytes(*most)));
  }
}

/// Prediction::keeps_up.
std::int32_t keeps_up(const HostScale& scale, const std::vector<RankDifference>& differences) {
  const auto plays_late_rank = [&](const RankDifference& difference) {
    return difference.workload != nullptr && static_cast<std::int32_t>(difference.rank) == scale.late_rank;
  };
  return std::any_of(differences.begin(), differences.end(), plays_late_rank) ? -1 : scale.late_rank;
}

void add_differences(const Workload& workload, const PredictRequest& request, Prediction& p) {
  const Differences& differences = request.differences;
  if (request.lengths) p.longest_drawn = request.lengths->lengths.back();
  p.unlike = !differences.empty();
  p.background = differences.background;
  p.slow_adapters = differences.slow_adapters;
  p.slow_links = differences.slow_links;
  p.keeps_up = keeps_up(p.host_scale, differences.ranks);
  p.rank_shapes = workload.rank_shapes;
  p.with_more = late_with_more(workload.measured, workload.rank_shapes, workload.settings);
}

/// Whether blocks differ in how often they were passed over (garbage collection), which a snapshot does not show.
bool ages_blocks(const Settings& settings) {
  const auto config = parse_alloc_conf(settings.alloc_conf, settings.pytorch);
  return !config || config->garbage_collection_threshold > 0;
}

/// Of a process that retries beyond its first step blocks lie otherwise in each step for a while (llama-1b under 29
/// GiB: what its retries take settles with the fifth): so many more are played, of which the last but one is told.
constexpr std::int32_t kMoreOfRetries = 8;

/// Whether the steps that were played are too few; then it asks for more.
bool asks_for_more(const Workload& adapted, const Simulation& played, SimulationRequest& request) {
  const auto& steps = played.outcome.steps;
  const bool retries = steps.size() > 1 && steps.back().num_alloc_retries > steps.front().num_alloc_retries;
  if (!retries || !adapted.recorded.empty() || played.outcome.out_of_memory || played.deadlock) return false;
  request.steps.steps += kMoreOfRetries;
  return true;
}

/// One simulation of the job; of ranks that are alike it is one rank's, until its steps repeat where `may_repeat` and
/// only the step is asked for.
Result<RankSimulation> play(const Workload& adapted, const PredictRequest& request, const MachineProfile& machine,
                            const SimulationRequest& wanted, const Differences& differences, bool may_repeat,
                            Run& run) {
  if (!differences.empty()) return simulate_ranks(adapted, request.settings, machine, wanted, differences, run);
  if (adapted.has_timing &&
      !request.memory_only) {  // how long collectives take changes no peak that does not follow the GPU
    auto met = simulate_groups_that_meet(adapted, request.settings, machine, wanted, run);
    FORESHARD_TRY(met);
    if (*met) return std::move(**met);
  }
  SimulationRequest once = wanted;
  once.steps.until_repeated = may_repeat && request.step_alone && !request.keep_run && !ages_blocks(request.settings) &&
                              !records_streams(adapted, request.settings);
  auto alone = simulate(adapted, request.settings, machine, once, run);
  FORESHARD_TRY(alone);
  return RankSimulation{std::move(*alone), {}, false, {}, {}, 0, {}, {}, {}};
}

/// As simulate(), with the ranks that differ: the simulation is the told rank's. `wanted` has the steps that were
/// played.
Result<RankSimulation> with_ranks(const Workload& adapted, const PredictRequest& request, const MachineProfile& machine,
                                  SimulationRequest& wanted, AdaptedRanks& others, Prediction& p) {
  others.differences = request.differences;
  const bool differ = !request.differences.empty();
  if (differ) FORESHARD_TRY(adapt_ranks(adapted, request, machine, others, p));
  auto ranks = play(adapted, request, machine, wanted, others.differences, true, p.run);
  FORESHARD_TRY(ranks);
  if (asks_for_more(adapted, ranks->simulation, wanted)) {
    p.run = {};
    p.run.units = adapted.units;
    p.run.labels = adapted.labels;
    ranks = play(adapted, request, machine, wanted, others.differences, false, p.run);
    FORESHARD_TRY(ranks);
  }
  if (!differ) return ranks;
  p.told_rank = ranks->told;
  p.ranks = ranks->groups;
  name_programs(request.differences.ranks, p.ranks);
  p.step_alike_ms = ranks->alike.ms();
  p.hang = ranks->hang;
  for (const MixedCollectives& mixed : p.hang ? p.hang->mixed : ranks->mixed) {
    if (!p.hang) p.warnings.push_back(text_of(mixed));
    p.not_valid.push_back(text_of(mixed));
    p.valid = false;
  }
  if (!others.differences.lengths_differ()) judge_memory(others.differences.ranks, *ranks, p);
  if (p.hang) ranks->simulation.deadlock = {{}, {}, text_of(*p.hang)};
  return ranks;
}

/// What retries take of the step, not anchored: it, less that of a process whose driver neither waits nor takes time;
/// 0 where that is not known, because such a process would not come to its end.
Result<double> retries_of(const Workload& adapted, const PredictRequest& request, const MachineProfile& machine,
                          SimulationRequest wanted, const AdaptedRanks& others, const Simulation& simulation) {
  if (!simulation.gave_back || simulation.steady == 0) return 0.0;
  wanted.times_driver = false;
  wanted.steps.record = false;
  Run ignored;
  const auto ranks = play(adapted, request, machine, wanted, others.differences, false, ignored);
  FORESHARD_TRY(ranks);
  const Simulation& without = ranks->simulation;
  if (without.outcome.out_of_memory || without.deadlock || without.steady != simulation.steady) return 0.0;
  return std::max(0.0, (simulation.steady_step() - without.steady_step()).ms());
}

/// What the simulation says but of time. `host_priced`: host times are a profile's (add_peak_range()).
Result<void> add_all_memory(const Workload& adapted, const MachineProfile& machine, const PredictRequest& request,
                            const SimulationRequest& wanted, const Simulation& simulation, bool host_priced,
                            Prediction& p) {
  p.deadlock = simulation.deadlock;
  p.collectives_ran = simulation.collectives_ran;
  add_memory(adapted, request, simulation, p);
  FORESHARD_TRY(add_peak_range(adapted, machine, request, wanted, host_priced, p));
  if (!adapted.has_timing)
    p.warnings.push_back(
        "the workload has no timing (no profiler trace of eager steps was imported): only memory is predicted");
  return {};
}

/// The same job again and again, with what chance does to it.
Result<void> add_trials(const Workload& adapted, const PredictRequest& request, const MachineProfile& machine,
                        const SimulationRequest& simulation_request, const AdaptedRanks& others,
                        const Simulation& simulation, Prediction& p) {
  if (!request.trials || simulation.steady == 0) return {};
  if (request.lengths) return add_length_trials(adapted, request, machine, simulation_request, others, simulation, p);
  const TrialSteps steps{simulation.steady - simulation.cycle, simulation.steady};
  const auto trials = simulate_rank_trials(adapted, request.settings, machine, simulation_request, others.differences,
                                           steps, *request.trials);
  FORESHARD_TRY(trials);
  if (!request.trials->part.whole()) {
    p.part_of_trials = *trials;
    return {};
  }
  p.trials = trial_times(*trials, *request.trials, request.settings.world(), applied_anchor(machine.prediction, p));
  p.trials->only_chance = p.ranks.size() < 2;
  return {};
}

std::vector<RankMembers> members_of(const std::vector<RankGroup>& groups) {
  std::vector<RankMembers> out;
  for (const RankGroup& group : groups) out.push_back({group.first, group.members, group.kept});
  return out;
}

/// The same job beside another one.
Result<void> add_beside(const Workload& adapted, const PredictRequest& request, const MachineProfile& machine,
                        const SimulationRequest& simulation_request, const AdaptedRanks& others,
                        const Simulation& simulation, Prediction& p) {
  if (!request.beside || simulation.steady == 0) return {};
  const BesideRequest& beside = *request.beside;
  const Settings settings = carried_out(beside.workload->lowering, beside.settings);
  PredictRequest alone;
  alone.settings = settings;
  alone.ops_alone = true;
  alone.threads = request.threads;
  const auto plan = predict(*beside.workload, machine, alone);
  FORESHARD_TRY(plan);
  if (!plan->has_time || plan->out_of_memory || plan->deadlock)
    return fail(ErrorKind::usage, "the other job has no step", "--beside", "plan it alone, which says why");
  auto other = adapt(*beside.workload, settings);
  FORESHARD_TRY(other);
  if (const auto elsewhere = recorded_elsewhere(*beside.workload, machine); elsewhere && elsewhere->profile)
    reprice(other->workload, *elsewhere->profile, machine, settings.pytorch);
  if (exchanges_sections(*beside.workload, settings))
    FORESHARD_TRY(price_sections(other->workload, settings, machine, plan->host_scale.factor));
  BesideTimes out{beside.workload->name, settings.nodes, settings.replicate, plan->step_ms, false, {}, 0, 0, 0};
  const auto steps = simulate_beside(adapted, request.settings, machine, simulation_request, others.differences,
                                     simulation, {other->workload, settings, plan->host_scale.factor});
  FORESHARD_TRY(steps);
  out.meets = !steps->empty();
  for (const Nanoseconds& step : *steps) out.steps_ms.push_back(step.ms() * applied_anchor(machine.prediction, p));
  if (std::vector<double> sorted = out.steps_ms; out.meets) {
    std::sort(sorted.begin(), sorted.end());
    out.median_ms = sorted[(sorted.size() - 1) / 2];  // a nearest rank, as of trials
    out.least_ms = sorted.front();
    out.most_ms = sorted.back();
  }
  p.beside = std::move(out);
  return {};
}

/// The same job while links of it flap.
Result<void> add_flapping(const Workload& adapted, const PredictRequest& request, const MachineProfile& machine,
                          const SimulationRequest& simulation_request, const AdaptedRanks& others,
                          const Simulation& simulation, Prediction& p) {
  if (!request.flapping || simulation.steady == 0) return {};
  const FlappingRequest& flapping = *request.flapping;
  for (const FlappingLink& link : flapping.links)
    FORESHARD_TRY(check_flapping_link(
        {machine.network, machine.links.gpus, request.settings.gpus, request.settings.nodes}, link));
  const auto played = simulate_flapping(adapted, request.settings, machine, simulation_request, others.differences,
                                        simulation, flapping);
  FORESHARD_TRY(played);
  if (auto end = job_end(flapping.links, p.step_ms, request.settings.world())) {
    p.flapping.emplace();
    p.flapping->links = flapping.links;
    const bool several = end->link.kind == FlappingLink::Kind::uplinks;
    p.not_valid.push_back(fmt::format("{} {} down until NCCL's transport has given up: the job ends", words(end->link),
                                      several ? "are" : "is"));
    p.flapping->job_end = std::move(end);
    p.warnings.push_back(p.not_valid.back());
    p.valid = false;
    return {};
  }
  const double anchor = applied_anchor(machine.prediction, p);
  p.flapping = flapping_times(flapping, *played, played->without.ms() * (anchor - 1));
  return {};
}

/// What the ranks of the whole step did, and what each difference costs.
Result<void> add_ranks(const Workload& adapted, const PredictRequest& request, const MachineProfile& machine,
                       const SimulationRequest& simulation_request, const AdaptedRanks& others,
                       const RankSimulation& ranks, Prediction& p) {
  if (p.ranks.empty()) return {};
  const double anchor = applied_anchor(machine.prediction, p);
  p.step_alike_ms *= anchor;
  if (request.kept_ranks == kNoRanks) return {};
  const auto costs = difference_costs(adapted, request.settings, machine, simulation_request, others.differences,
                                      ranks.simulation, ranks.alike);
  FORESHARD_TRY(costs);
  for (const DifferenceCost& cost : *costs)
    p.rank_costs.push_back({cost.what, cost.ranks, cost.alone.ms() * anchor, cost.beside.ms() * anchor});
  p.run.info.kind = RunKind::planned;
  p.run.settings = request.settings;
  std::set<std::int32_t> steps;
  for (std::size_t i = 0; i < ranks.simulation.cycle; ++i)
    steps.insert(static_cast<std::int32_t>(ranks.simulation.steady - i));
  const auto slower = slower_ranks(p);
  p.stragglers =
      find_stragglers(p.run, members_of(p.ranks), steps, slower ? runs_of(slower->ranks) : std::vector<RankRun>{});
  return {};
}

/// The bound of a job whose ranks differ: what it adds to the job whose ranks are alike, and its own free host.
/// `step_ms`: without what retries take.
void bound_of_ranks(const PredictionSpec& spec, const RankSimulation& ranks, double step_ms, HostBound& bound) {
  const double longer = bound.step_ms > 0 ? step_ms / bound.step_ms : 1;
  bound.step_ms = step_ms;
  bound.faster_ms *= longer;
  bound.slower_ms *= longer;
  bound.gpu_step_ms = std::min(step_ms, ranks.gpu_step.ms());
  double host = 1;
  for (const RankGroup& group : ranks.groups) host = std::max(host, group.traits.host);
  bound.host_ms *= host;
  bound.no_waits_ms.reset();
  bound.binds_from.reset();  // of this job it was not looked for
  bound.host_bound =
      bound.step_ms > spec.step_excess * bound.gpu_step_ms || bound.host_ms > spec.host_share * bound.gpu_step_ms;
}

/// All times of the told rank. `retries`: what they take (retries_of()).
void add_whole_times(const Workload& workload, const PredictRequest& request, const MachineProfile& machine,
                     const RankSimulation& ranks, double retries, HostBound& bound, Prediction& p) {
  const Simulation& simulation = ranks.simulation;
  if (ranks.job) bound_of_ranks(machine.prediction, ranks, simulation.steady_step().ms() - retries, bound);
  add_times(machine.prediction, workload, request.settings, simulation, bound, p);
  const double anchor = applied_anchor(machine.prediction, p);
  p.retries_ms = retries * anchor;
  if (p.settled) p.settled->step_time = p.settled->step_time.scaled(anchor);
}

Result<void> check_fabric(const Settings& settings, const Network& network) {
  if (network.group_nodes == 0 || (settings.nodes - 1) / network.group_nodes < kMaxDragonflyGroups) return {};
  return fail(ErrorKind::usage,
              fmt::format("a dragonfly of {} groups is not modelled, but of {} at most",
                          (settings.nodes - 1) / network.group_nodes + 1, kMaxDragonflyGroups),
              "network/group_nodes", "larger groups, or a fat tree");
}

/// How host-bound the step is, and by what range of the host's speed.
struct AskedBound {
  HostRange host;
  std::optional<Result<HostBound>> found;  ///< none: not looked for yet

  Result<HostBound> find(const Workload& adapted, const PredictRequest& request, const MachineProfile& machine,
                         double host_scale) const {
    return host_bound(adapted, request.settings, machine, host_scale, host.range, host.basis == Basis::modelled_host);
  }
};

/// As with_ranks(); on a second thread, where there is one, `bound` is found, which does not wait for it.
Result<RankSimulation> with_bound(const Workload& adapted, const PredictRequest& request, const MachineProfile& machine,
                                  SimulationRequest& simulation_request, AdaptedRanks& others, AskedBound& bound,
                                  Prediction& p) {
  std::optional<Result<RankSimulation>> ranks;
  const double host_scale = p.host_scale.factor;
  const bool asks = adapted.has_timing && p.time_unknown.empty() && !request.memory_only && !request.step_alone;
  for_each(asks && request.threads > 1 ? 2 : 1, request.threads, [&](std::size_t i) {
    if (i == 0)
      ranks = with_ranks(adapted, request, machine, simulation_request, others, p);
    else
      bound.found = bound.find(adapted, request, machine, host_scale);
  });
  return std::move(*ranks);
}

/// What the step gets done, and MFU where it is `timed`; of a recording whose ranks were given unlike work their mean,
/// where the plan has that (shapes_of_job()).
void add_work(const Workload& workload, const Workload& adapted, const MachineProfile& machine,
              const Settings& settings, bool timed, Prediction& p) {
  const std::vector<StepShape> of_ranks = shapes_of_job(workload, settings);
  p.counts_ranks = !of_ranks.empty();
  p.work = of_ranks.empty() ? work_of_steps(workload, settings, p.cycle) : work_of_shapes(of_ranks, settings);
  if (timed) p.utilization = model_flops_utilization(adapted, settings, machine.peaks, p.step_ms, of_ranks);
}

/// PredictRequest::step_alone.
Result<void> add_step_alone(const Workload& workload, const Workload& adapted, const MachineProfile& machine,
                            const PredictRequest& request, const Simulation& simulation, Prediction& p) {
  if (follows_host_bound(workload, request.settings, p.host_scale)) {
    const auto bound = host_bound(adapted, request.settings, machine, p.host_scale.factor);
    FORESHARD_TRY(bound);
    p.host_bound = bound->host_bound;
  }
  const double anchor = applied_anchor(machine.prediction, p);
  if (request.keep_run) stretch(p.run, anchor);
  if (p.settled) p.settled->step_time = p.settled->step_time.scaled(anchor);
  add_step(machine.prediction, simulation, anchor, p);
  judge_host_calls(workload, request.settings, p);
  return {};
}

}  // namespace

bool records_streams(const Workload& workload, const Settings& settings) {
  if (settings.release == Release::record_stream || settings.reduce_scatter_release == Release::record_stream)
    return true;
  const auto waits = [](const Op& op) { return op.kind == OpKind::free && op.user_stream != 0; };
  return std::any_of(workload.steps.begin(), workload.steps.end(),
                     [&](const Program& step) { return std::any_of(step.ops.begin(), step.ops.end(), waits); });
}

bool follows_host_bound(const Workload& workload, const Settings& settings, const HostScale& scale) {
  return scale.anchor != 1 || host_confidence(workload) == HostConfidence::assumed ||
         exchanges_host_calls(workload, settings);
}

namespace {

/// Of the step, and of the mean step of drawn lengths, which rests on the same.
void close_intervals(Prediction& p) {
  close_interval(p.step_ms, p.interval);
  if (!p.trials || !p.trials->lengths) return;
  Interval mean{.rests_on = p.interval.rests_on};
  close_interval(p.trials->step_ms.mean, mean);
  p.trials->lengths->low_ms = mean.low_ms;
  p.trials->lengths->high_ms = mean.high_ms;
}

}  // namespace

bool from_model(const Workload& workload) {
  if (workload.measured || !workload.has_timing || workload.steps.empty()) return false;
  const std::vector<Op>& ops = workload.steps.back().ops;
  return std::any_of(ops.begin(), ops.end(), [](const Op& op) {
    return op.kind == OpKind::kernel && op.kernel.work.count == 0 &&
           (op.kernel.math.kind != KernelMath::Kind::bytes || op.kernel.bytes > 0);
  });
}

std::vector<std::string> not_as_asked(const Prediction& prediction) {
  std::vector<std::string> reasons;
  for (const CollectiveRan& ran : prediction.collectives_ran)
    if (!ran.why_not_asked.empty() && std::find(reasons.begin(), reasons.end(), ran.why_not_asked) == reasons.end())
      reasons.push_back(ran.why_not_asked);
  return reasons;
}

std::size_t largest_step(const std::vector<PredictedStep>& steps) {
  const auto by_peaks = [](const PredictedStep& a, const PredictedStep& b) {
    return std::pair(a.peaks.reserved, a.peaks.allocated) < std::pair(b.peaks.reserved, b.peaks.allocated);
  };
  return static_cast<std::size_t>(std::max_element(steps.begin(), steps.end(), by_peaks) - steps.begin());
}

MemoryPeaks largest_peaks(const Prediction& prediction) {
  const bool several = !prediction.out_of_memory && !prediction.steps.empty();
  return several ? prediction.steps[largest_step(prediction.steps)].peaks : prediction.peaks;
}

Bytes most_reserved(const Prediction& prediction) {
  const Bytes told = largest_peaks(prediction).reserved;
  return prediction.settled ? std::max(told, prediction.settled->reserved) : told;
}

bool runs_out_later(const Prediction& prediction) {
  return prediction.settled && prediction.settled->out_of_memory;
}

bool keeps_retrying(const Prediction& prediction) {
  return prediction.step_num_alloc_retries > 0 || (prediction.settled && prediction.settled->num_alloc_retries > 0);
}

double lasting_step_ms(const Prediction& prediction) {
  const bool later = prediction.has_time && prediction.step_num_alloc_retries == 0 && keeps_retrying(prediction);
  return later ? prediction.settled->step_time.ms() : prediction.step_ms;
}

Result<void> check_memory_limit(std::optional<Bytes> limit, const MachineProfile& machine) {
  if (!limit) return {};
  if (*limit < kSmallestLimit)
    return fail(ErrorKind::usage, fmt::format("a memory limit of {} bytes holds no segment", *limit), {},
                "the smallest is of 2 MiB; give the unit: 80GiB");
  const Bytes most = memory_options(machine, {}).capacity;
  if (*limit > most && format_bytes(*limit) != format_bytes(most))
    return fail(ErrorKind::usage,
                fmt::format("a memory limit of {} is more than {} gives the caching allocator, {}",
                            format_bytes(*limit), machine.name, format_bytes(most)),
                {}, "leave it out for all of it, or name a larger machine");
  return {};
}

namespace {

/// What cannot be planned at all.
Result<void> check(const Workload& workload, const MachineProfile& machine, const PredictRequest& request) {
  FORESHARD_TRY(check_memory_limit(request.memory_limit, machine));
  FORESHARD_TRY(check_fabric(request.settings, machine.network));
  return check_capturable(workload, request.settings);
}

}  // namespace

Result<Prediction> predict(const Workload& workload, const MachineProfile& machine, const PredictRequest& wanted) {
  PredictRequest request = wanted;
  request.settings = carried_out(workload.lowering, wanted.settings);
  FORESHARD_TRY(check(workload, machine, request));
  request.step_alone &= request.differences.empty();
  if (!workload.recorded.empty()) request.steps = static_cast<std::int32_t>(workload.recorded.size());
  const auto elsewhere = recorded_elsewhere(workload, machine);
  const bool changes =
      elsewhere || rewrites(workload, request.settings) || exchanges_sections(workload, request.settings);
  auto adapted = changes ? adapt(workload, request.settings) : leave_as_is(workload, request.settings);
  FORESHARD_TRY(adapted);
  Prediction p;
  p.warnings = adapted->warnings;
  p.memory_capacity = memory_options(machine, request.memory_limit).capacity;
  p.not_valid = p.time_unknown = adapted->time_unknown;
  p.valid = p.not_valid.empty();
  judge_version(workload, request.settings, p);
  auto scale = request.host_scale ? Result<HostScale>(*request.host_scale) : find_host_scale(workload, machine);
  FORESHARD_TRY(scale);
  p.host_scale = *scale;
  add_differences(workload, request, p);
  p.host = host_confidence(workload);
  if (elsewhere) move_to(machine, *elsewhere, request.settings.pytorch, adapted->workload, p);
  const auto priced = exchange_sections(workload, machine, request.settings, adapted->workload, p);
  const Workload& w = changes ? adapted->workload : workload;
  auto wanted_simulation = simulation_of(w, request, machine, p.host_scale);
  FORESHARD_TRY(wanted_simulation);
  SimulationRequest& simulation_request = *wanted_simulation;
  p.run.units = w.units;
  p.run.labels = w.labels;
  AdaptedRanks others;
  AskedBound bound{host_range(machine.prediction, workload, p), {}};
  auto ranks = with_bound(w, request, machine, simulation_request, others, bound, p);
  FORESHARD_TRY(ranks);
  const Simulation& simulation = ranks->simulation;
  FORESHARD_TRY(add_all_memory(w, machine, request, simulation_request, simulation, priced.has_value(), p));
  const bool timed = w.has_timing && p.time_unknown.empty() && !p.out_of_memory && !p.deadlock && !request.memory_only;
  if (timed && request.step_alone) FORESHARD_TRY(add_step_alone(workload, w, machine, request, simulation, p));
  if (timed && !request.step_alone) {
    if (!bound.found) bound.found = bound.find(w, request, machine, p.host_scale.factor);
    Result<HostBound>& found = *bound.found;
    FORESHARD_TRY(found);
    const auto retries = retries_of(w, request, machine, simulation_request, others, simulation);
    FORESHARD_TRY(retries);
    add_whole_times(workload, request, machine, *ranks, *retries, *found, p);
    FORESHARD_TRY(add_trials(w, request, machine, simulation_request, others, simulation, p));
    FORESHARD_TRY(add_beside(w, request, machine, simulation_request, others, simulation, p));
    FORESHARD_TRY(add_flapping(w, request, machine, simulation_request, others, simulation, p));
    FORESHARD_TRY(add_ranks(w, request, machine, simulation_request, others, *ranks, p));
    judge_basis(machine.prediction, workload, request.settings, bound.host, *found, p);
    if (priced) judge_sections(machine.prediction, *priced, p);
    judge_host_calls(workload, request.settings, p);
    judge_gemms(machine.prediction, workload, others.gemms, p);
    judge_retries(machine.prediction, p);
  }
  add_work(workload, w, machine, request.settings, timed && !request.step_alone, p);
  count_lengths(request, machine, others, p);
  judge_workload(workload, w, machine, p);
  judge_steps(workload, p);
  judge_prices(w, simulation, p);
  judge_machine(workload, w, machine, request.settings, p.not_measured > 0, p);
  if (elsewhere && p.has_time) judge_elsewhere(machine, p);
  if (p.has_time) close_intervals(p);
  add_info(workload, machine, request.settings, p);
  return p;
}

}  // namespace foreshard::sim
