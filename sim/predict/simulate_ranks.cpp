#include "sim/predict/simulate_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/run/steady_step.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/rank_ops.hpp"
#include "sim/predict/rank_programs.hpp"
#include "sim/ranks/job_network.hpp"

namespace foreshard::sim {
namespace {

class RanksSimulation {
 public:
  RanksSimulation(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                  const SimulationRequest& request)
      : settings_(settings), machine_(machine), request_(request), workload_(workload) {}

  Result<RankSimulation> run(const Differences& differences, Run& run) {
    FORESHARD_TRY(set_up(differences));
    RankSimulation out;
    out.alike = ranks_.alike;
    out.reserved = ranks_.reserved;
    out.told = ranks_.told;
    out.out_of_memory_workload = ranks_.out_of_memory_workload;
    if (out.out_of_memory_workload) {  // there is no step of such a job
      auto alone = simulate(*ranks_.workloads[*out.out_of_memory_workload], settings_, machine_, request_, run);
      FORESHARD_TRY(alone);
      out.simulation = std::move(*alone);
      return out;
    }
    run.units = workload_of(ranks_.told).units;
    run.labels = workload_of(ranks_.told).labels;
    const auto job = play();
    FORESHARD_TRY(job);
    FORESHARD_TRY(again(*job, job->classes.of_rank[ranks_.told], run, out.simulation));
    out.groups = groups_of(*job);
    if (!job->stuck.empty()) {
      FORESHARD_TRY(add_hang(*job, run, out));
      return out;
    }
    if (ranks_.calls_may_differ()) {
      const auto names = names_of_programs();
      FORESHARD_TRY(names);
      out.mixed = mixed_collectives(*job, job_request(), *names);
    }
    out.job = true;
    out.gpu_step = free_host_step(out.simulation);
    if (job->paced) {
      auto alike = RanksSimulation(workload_, settings_, machine_, request_).step_with({}, out.simulation);
      FORESHARD_TRY(alike);
      out.alike = *alike;
    }
    // From the one before the steady step, or cycle, at whose end that begins, to the last, whose memory is shown.
    const StepRange steps{static_cast<std::int32_t>(out.simulation.steady - out.simulation.cycle),
                          static_cast<std::int32_t>(out.simulation.step_end.size()) - 1};
    if (keeps_ops()) FORESHARD_TRY(add_rank_ops(*job, steps, run));
    return out;
  }

  Result<Nanoseconds> step_with(const Differences& differences, const Simulation& steps) {
    FORESHARD_TRY(set_up(differences));
    JobRequest request = job_request();
    request.last_step = steps.steady;
    return steady_of(request, steps);
  }

  Result<std::optional<RankSimulation>> groups_that_meet(Run& run) {
    FORESHARD_TRY(set_up({}));
    if (ranks_.out_of_memory_workload || ranks_.follows_gpu || !groups_meet()) return std::nullopt;
    JobRequest request = job_request();
    request.keep_meetings = {0};
    const Job job = simulate_job(ranks_.machine, request);
    if (!job.stuck.empty()) return std::nullopt;
    run.units = workload_.units;
    run.labels = workload_.labels;
    RankSimulation out;
    FORESHARD_TRY(again(job, 0, run, out.simulation));
    out.job = true;
    out.gpu_step = free_host_step(out.simulation);
    out.reserved = ranks_.reserved;
    return out;
  }

  /// The mean of `steps`; `end`: about when the last of them would end alone.
  Result<std::vector<Nanoseconds>> beside(const Differences& differences, const TrialSteps& steps_of_this,
                                          Nanoseconds end, const OtherJob& other) {
    FORESHARD_TRY(set_up(differences));
    if (ranks_.follows_gpu) return no_job_beside();
    const auto first = other_program(other, 4);
    FORESHARD_TRY(first);
    const Nanoseconds other_step = first->alike;
    if (!jobs_meet(*first->programs[0].log, other)) return std::vector<Nanoseconds>{};
    // A neighbour slows both down: half as long again is mostly enough, and it is looked at.
    std::int64_t steps = 3 + end.count * 3 / 2 / std::max<std::int64_t>(1, other_step.count);
    for (;; steps *= 2) {
      if (steps > kMaxStepsBeside)
        return fail(ErrorKind::usage,
                    fmt::format("the other job's steps of {:.2f} ms are too short: more than {} of them in one plan",
                                other_step.ms(), kMaxStepsBeside),
                    "--beside", "give it as large a model or batch as this one");
      const auto program = other_program(other, static_cast<std::int32_t>(steps));
      FORESHARD_TRY(program);
      if (auto out = steps_beside(*program->programs[0].log, steps_of_this, other, other_step); !out.empty())
        return out;
    }
  }

  Result<std::vector<Trial>> trials(const Differences& differences, const TrialSteps& steps,
                                    const TrialsRequest& request, const StepPrograms* drawn) {
    FORESHARD_TRY(set_up(differences));
    if (ranks_.follows_gpu) FORESHARD_TRY(refuse_record_stream(settings_));
    const auto dies = [](const RankTraits& rank) { return rank.dead_from != kNeverDies; };
    if (ranks_.out_of_memory_workload || std::any_of(ranks_.traits.begin(), ranks_.traits.end(), dies))
      return fail(ErrorKind::usage, "a job that does not end its steps has no times to draw", "--jitter");
    return simulate_trials(ranks_.machine, job_request(), steps, request, drawn);
  }

 private:
  Result<void> set_up(const Differences& differences) {
    auto ranks = rank_programs(workload_, settings_, machine_, request_, differences);
    FORESHARD_TRY(ranks);
    ranks_ = std::move(*ranks);
    collectives_.emplace(ranks_.machine);
    return {};
  }

  [[nodiscard]] const Workload& workload_of(std::uint32_t rank) const { return ranks_.workload_of(rank); }

  [[nodiscard]] JobRequest job_request() const { return job_of(ranks_, request_, {&*collectives_, settings_.gpus}); }

  static tl::unexpected<Error> no_job_beside() {
    return fail(ErrorKind::usage, "two jobs are not simulated where the memory of one follows its GPUs' progress",
                "record_stream", "plan them with --release stash, or leave --beside out");
  }

  [[nodiscard]] Result<RankPrograms> other_program(const OtherJob& other, std::int32_t steps) const {
    SimulationRequest request = request_;
    request.steps.steps = steps;
    request.options.host_scale = other.host_scale;
    auto programs = rank_programs(other.workload, other.settings, machine_, request, {});
    FORESHARD_TRY(programs);
    if (programs->follows_gpu) return no_job_beside();
    if (programs->out_of_memory_workload)
      return fail(ErrorKind::usage, "the other job runs out of memory", "--beside", "plan it alone: it says what fits");
    return programs;
  }

  [[nodiscard]] bool jobs_meet(const HostProgram& theirs, const OtherJob& other) const {
    return JobNetwork(ranks_.machine, *collectives_,
                      {{ranks_.programs[0].log->communicators, settings_.world()},
                       {theirs.communicators, other.settings.world()}},
                      settings_.gpus)
        .jobs_meet();
  }

  /// Empty where the other job ended first.
  [[nodiscard]] std::vector<Nanoseconds> steps_beside(const HostProgram& theirs, const TrialSteps& steps,
                                                      const OtherJob& other, Nanoseconds other_step) const {
    constexpr std::size_t kOffsets = 8;
    std::vector<Nanoseconds> out(kOffsets);
    std::vector<char> covered(kOffsets);
    const auto play = [&](std::size_t offset) {
      JobRequest request = job_request();
      request.threads = 1;
      request.own_ranks = settings_.world();
      request.last_step = steps.end;
      RankTraits traits;
      traits.program = static_cast<std::uint32_t>(request.programs.size());
      traits.host = request.host_scale > 0 ? other.host_scale / request.host_scale : 1;
      traits.begin = other_step.count * static_cast<std::int64_t>(offset) / static_cast<std::int64_t>(kOffsets);
      request.programs.push_back(&theirs);
      request.ranks.insert(request.ranks.end(), other.settings.world(), traits);
      const Job job = simulate_job(ranks_.machine, request);
      covered[offset] = job.of(settings_.world()).step_ends.size() < theirs.step_ends.size() ? 1 : 0;
      const std::vector<Nanoseconds>& ends = job.of(0).step_ends;
      out[offset] = {(ends[steps.end] - ends[steps.begin]).count / static_cast<std::int64_t>(steps.end - steps.begin)};
    };
    for_each(kOffsets, request_.threads, play);
    if (std::count(covered.begin(), covered.end(), 0) > 0) return {};
    return out;
  }

  [[nodiscard]] bool groups_meet() const {
    const JobOnNetwork job{ranks_.programs[0].log->communicators, settings_.world()};
    return JobNetwork(ranks_.machine, *collectives_, {job}, settings_.gpus).meets();
  }

  /// With the meetings of the ranks that are shown. Of a large job these are known once it has been played.
  [[nodiscard]] Result<Job> play() const {
    JobRequest request = job_request();
    if (!keeps_ops()) {
      request.keep_meetings = {ranks_.told};
    } else if (!each_is_shown()) {
      const Job job = simulate_job(ranks_.machine, request);
      request.keep_meetings = shown_ranks(job);
    } else {
      for (std::uint32_t rank = 0; rank < ranks_.traits.size(); ++rank) request.keep_meetings.push_back(rank);
    }
    FORESHARD_TRY(check_row_count(request.keep_meetings));
    return simulate_job(ranks_.machine, request);
  }

  /// How many ops the programs issue in the steps of Run::rank_ops: a few more or fewer than the rows will be.
  Result<void> check_row_count(const std::vector<std::uint32_t>& shown) const {
    if (!keeps_ops()) return {};
    std::vector<std::size_t> ops;  // by program
    for (const RankProgram& program : ranks_.programs) {
      const std::vector<OpId>& ends = program.log->step_ends;
      const std::size_t steady = steady_step(ends.size());
      ops.push_back(program.log->table.ops().size() - (steady < 2 ? 0 : ends[steady - 2].value + 1));
    }
    std::size_t rows = 0;
    for (const std::uint32_t rank : shown) rows += ops[ranks_.traits[rank].program];
    if (rows <= request_.max_rank_ops) return {};
    const std::size_t each = rows / shown.size();
    return fail(ErrorKind::usage,
                fmt::format("{} ranks' timelines of about {} ops each are more than the {} ops that a run keeps",
                            shown.size(), each, request_.max_rank_ops),
                "--ranks", fmt::format("keep at most {}", request_.max_rank_ops / each));
  }

  /// The last but one step's end to the last one's, with hosts that cost nothing.
  [[nodiscard]] Nanoseconds free_host_step(const Simulation& steps) const {
    JobRequest request = job_request();
    request.host_scale = 0;
    return steady_of(request, steps);
  }

  /// Of the step, or the cycle, that `steps` has for the steady one.
  [[nodiscard]] Nanoseconds steady_of(const JobRequest& request, const Simulation& steps) const {
    const Job job = simulate_job(ranks_.machine, request);
    const std::vector<Nanoseconds>& ends = job.of(ranks_.told).step_ends;
    if (steps.steady == 0 || steps.steady >= ends.size()) return {};
    const Nanoseconds cycle = ends[steps.steady] - ends[steps.steady - steps.cycle];
    return {cycle.count / static_cast<std::int64_t>(steps.cycle)};
  }

  /// Runs the program of a class once more, on a device whose collectives wait as they did in the job.
  Result<void> again(const Job& job, std::size_t index, Run& run, Simulation& out) const {
    const std::uint32_t rank = job.classes.classes[index].first;
    const RankTraits& traits = ranks_.traits[rank];
    SimulationRequest request = request_;
    if (ranks_.links_differ()) {
      request.options.rank = rank;
      request.options.node_ranks = settings_.gpus;
    }
    request.options.host_scale *= traits.host;
    request.options.kernel_work = traits.kernels;
    request.options.script = &job.ranks[index].meetings;
    request.options.paced = job.paced;
    if (traits.dead_from != kNeverDies)
      request.steps.steps = std::min(request.steps.steps, static_cast<std::int32_t>(traits.dead_from));
    auto simulation = simulate(workload_of(rank), settings_, ranks_.machine, request, run);
    FORESHARD_TRY(simulation);
    out = std::move(*simulation);
    return {};
  }

  [[nodiscard]] std::vector<RankGroup> groups_of(const Job& job) const {
    std::vector<RankGroup> out;
    for (const RankClasses::Class& about : job.classes.classes) out.push_back(group_of(about));
    std::vector<std::vector<std::uint32_t>> members(out.size());
    for (std::uint32_t rank = 0; rank < job.classes.of_rank.size(); ++rank)
      members[job.classes.of_rank[rank]].push_back(rank);
    for (std::size_t i = 0; i < out.size(); ++i) out[i].members = runs_of(members[i]);
    if (keeps_ops())
      for (const std::uint32_t rank : shown_ranks(job)) out[job.classes.of_rank[rank]].kept = true;
    return out;
  }

  [[nodiscard]] RankGroup group_of(const RankClasses::Class& about) const {
    const RankProgram& program = ranks_.programs[ranks_.traits[about.first].program];
    RankGroup out;
    out.first = about.first;
    out.count = about.count;
    out.traits = ranks_.traits[about.first];
    out.own_workload = program.workload > 0;
    out.network_slowdown = program.network_slowdown;
    out.background_slowdown = program.background_slowdown;
    for (const GroupLinks& links : program.links) out.link_slowdown = std::max(out.link_slowdown, links.link_slowdown);
    return out;
  }

  [[nodiscard]] bool keeps_ops() const { return request_.steps.record && request_.kept_ranks != kNoRanks; }
  [[nodiscard]] std::uint32_t most_shown() const { return std::max(1U, request_.kept_ranks.value_or(kSmallJob)); }
  [[nodiscard]] bool each_is_shown() const { return ranks_.traits.size() <= std::min(most_shown(), kSmallJob); }

  /// SimulationRequest::kept_ranks, the told one first.
  [[nodiscard]] std::vector<std::uint32_t> shown_ranks(const Job& job) const {
    std::vector<std::uint32_t> out{ranks_.told};
    if (each_is_shown()) {
      for (std::uint32_t rank = 0; rank < ranks_.traits.size(); ++rank)
        if (rank != ranks_.told) out.push_back(rank);
      return out;
    }
    const std::size_t told = job.classes.of_rank[ranks_.told];
    std::vector<std::size_t> classes;
    for (std::size_t i = 0; i < job.ranks.size(); ++i)
      if (i != told) classes.push_back(i);
    const auto key = [&](std::size_t i) {  // nobody has waited to the end for one that never came
      return std::pair(ranks_.traits[job.classes.classes[i].first].dead_from != kNeverDies, job.ranks[i].awaited.all);
    };
    std::stable_sort(classes.begin(), classes.end(), [&](std::size_t a, std::size_t b) { return key(a) > key(b); });
    classes.resize(std::min<std::size_t>(classes.size(), most_shown() - 1));
    std::sort(classes.begin(), classes.end());
    for (const std::size_t i : classes) out.push_back(job.classes.classes[i].first);
    return out;
  }

  /// Who waits for whom, and what each rank did until then, from the last whole step on.
  Result<void> add_hang(const Job& job, Run& run, RankSimulation& out) const {
    const auto names = names_of_programs();
    FORESHARD_TRY(names);
    out.hang = hang_of(job, job_request(), *names);
    out.hang->skips = ranks_.skips;
    const StepRange steps{static_cast<std::int32_t>(out.hang->steps) - 1, INT32_MAX};
    if (keeps_ops()) FORESHARD_TRY(add_rank_ops(job, steps, run));
    end_open_ops(run);
    return {};
  }

  /// What each program's collectives are called, those to which its ranks never come among them.
  [[nodiscard]] Result<std::vector<CollectiveNames>> names_of_programs() const {
    std::vector<CollectiveNames> of_workloads;
    for (const Workload* workload : ranks_.workloads) {
      Run whole;
      whole.units = workload->units;
      SimulationRequest request = request_;
      request.steps.ops_alone = true;
      const auto named = simulate(*workload, settings_, ranks_.machine, request, whole);
      FORESHARD_TRY(named);
      of_workloads.push_back(collective_names(whole));
    }
    std::vector<CollectiveNames> out;
    for (const RankProgram& program : ranks_.programs) out.push_back(of_workloads[program.workload]);
    return out;
  }

  Result<void> add_rank_ops(const Job& job, const StepRange& steps, Run& run) const {
    std::map<std::uint32_t, Run> runs;                                         // by class
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> numbers;  // by communicator and lowest rank
    const std::uint32_t told = job.classes.of_rank[ranks_.told];
    for (const std::uint32_t rank : shown_ranks(job)) {
      const std::uint32_t index = job.classes.of_rank[rank];
      const RankClasses::Class& about = job.classes.classes[index];
      if (index != told && !runs.contains(index)) {
        Run& other = runs[index];
        other.units = run.units;
        other.labels = workload_of(about.first).labels;
        Simulation ignored;
        FORESHARD_TRY(again(job, index, other, ignored));
      }
      // Of equal ranks one stands for all, and so does one of their groups.
      std::vector<std::uint32_t> groups = about.group;
      for (std::uint32_t c = 0; each_is_shown() && c < job.communicators.size(); ++c)
        groups[c] =
            numbers.try_emplace({c, job.communicators[c].first(rank)}, static_cast<std::uint32_t>(numbers.size()))
                .first->second;
      append_rank_ops(index != told ? runs[index] : run, rank, groups, steps, run);
    }
    return {};
  }

  const Settings& settings_;
  const MachineProfile& machine_;
  const SimulationRequest& request_;
  const Workload& workload_;
  RankPrograms ranks_;
  std::optional<ModelledCollectives> collectives_;  // of its machine
};

}  // namespace

Result<RankSimulation> simulate_ranks(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                                      const SimulationRequest& request, const Differences& differences, Run& run) {
  return RanksSimulation(workload, settings, machine, request).run(differences, run);
}

Result<Nanoseconds> step_with(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                              const SimulationRequest& request, const Differences& differences,
                              const Simulation& steps) {
  return RanksSimulation(workload, settings, machine, request).step_with(differences, steps);
}

Result<std::optional<RankSimulation>> simulate_groups_that_meet(const Workload& workload, const Settings& settings,
                                                                const MachineProfile& machine,
                                                                const SimulationRequest& request, Run& run) {
  const Network& network = machine.network;
  if (settings.nodes <= 1 || (network.leaf_nodes == 0 && network.group_nodes == 0)) return std::nullopt;
  return RanksSimulation(workload, settings, machine, request).groups_that_meet(run);
}

Result<std::vector<Nanoseconds>> simulate_beside(const Workload& workload, const Settings& settings,
                                                 const MachineProfile& machine, const SimulationRequest& request,
                                                 const Differences& differences, const Simulation& alone,
                                                 const OtherJob& other) {
  if (machine.network.group_nodes > 0)
    return fail(ErrorKind::usage, "of a dragonfly every two groups have one link that is the job's alone", "--beside",
                "another job is looked at on a fat tree or rails");
  if (!differences.links_alike())
    return fail(ErrorKind::usage, "another job beside slow or loaded links is not simulated", "--beside",
                "leave one of the two out");
  // A step behind one that was held up may be shorter for it: the mean of some.
  constexpr std::size_t kCycles = 4;
  TrialSteps steps{alone.steady - alone.cycle, alone.steady};
  SimulationRequest longer = request;
  if (workload.recorded.empty()) {
    steps = {alone.steady, alone.steady + kCycles * alone.cycle};
    longer.steps.steps += static_cast<std::int32_t>(kCycles * alone.cycle);
  }
  const Nanoseconds end{alone.step_end[alone.steady].count * static_cast<std::int64_t>(steps.end + 1) /
                        static_cast<std::int64_t>(alone.steady + 1)};
  return RanksSimulation(workload, settings, machine, longer).beside(differences, steps, end, other);
}

Result<std::vector<Trial>> simulate_rank_trials(const Workload& workload, const Settings& settings,
                                                const MachineProfile& machine, const SimulationRequest& request,
                                                const Differences& differences, const TrialSteps& steps,
                                                const TrialsRequest& trials, const StepPrograms* drawn) {
  return RanksSimulation(workload, settings, machine, request).trials(differences, steps, trials, drawn);
}

}  // namespace foreshard::sim
