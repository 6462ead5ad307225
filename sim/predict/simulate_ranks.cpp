#include "sim/predict/simulate_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/run/steady_step.hpp"
#include "sim/collectives/network_rate.hpp"
#include "sim/engine/strided_groups.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/rank_ops.hpp"

namespace foreshard::sim {
namespace {

/// Ranks of which a Run keeps the ops: all of a job of so many, else one of each of so many groups, those that are
/// waited for longest first. Two nodes of eight GPUs are seen whole; a store grows by one rank's ops with each.
constexpr std::size_t kShownRanks = 16;

struct Logged {
  HostProgram program;
  Nanoseconds step;    // of ranks that all run it
  Bytes reserved = 0;  // the largest peak of its steps
  bool out_of_memory = false;
};

Result<Logged> log_of(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                      const SimulationRequest& request) {
  DeviceLog log;
  SimulationRequest logged = request;
  logged.steps.record = false;
  logged.options.log = &log;
  Run ignored;
  const auto simulation = simulate(workload, settings, machine, logged, ignored);
  FORESHARD_TRY(simulation);
  Bytes reserved = 0;
  for (const StepOutcome::Step& step : simulation->outcome.steps) reserved = std::max(reserved, step.peaks.reserved);
  if (simulation->outcome.out_of_memory) return Logged{{}, {}, reserved, true};
  if (log.depends_on_time())
    return fail(ErrorKind::usage, "ranks that differ are not simulated where memory follows the GPU's progress",
                "record_stream", "leave out --release record-stream, or the ranks' differences and --jitter");
  std::vector<OpId> ends;
  for (const StepOutcome::Step& step : simulation->outcome.steps)
    if (step.last_compute_op) ends.push_back(*step.last_compute_op);
  return Logged{host_program(log, std::move(ends)), simulation->steady_step(), reserved, false};
}

class RanksSimulation {
 public:
  RanksSimulation(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                  const SimulationRequest& request)
      : settings_(settings), machine_(machine), request_(request), workloads_{&workload} {}

  Result<RankSimulation> run(const Differences& differences, Run& run) {
    RankSimulation out;
    FORESHARD_TRY(make_programs(differences, out));
    if (out.out_of_memory_workload) {  // there is no step of such a job
      auto alone = simulate(*workloads_[*out.out_of_memory_workload], settings_, machine_, request_, run);
      FORESHARD_TRY(alone);
      out.simulation = std::move(*alone);
      return out;
    }
    run.units = workload_of(0).units;
    run.labels = workload_of(0).labels;
    const Job job = play();
    FORESHARD_TRY(again(job, 0, run, out.simulation));
    out.groups = groups_of(job);
    if (!job.stuck.empty()) {
      out.hang = hang_of(job, job_request(), run);
      return out;
    }
    out.gpu_step = free_host_step();
    if (request_.steps.record) FORESHARD_TRY(add_rank_ops(job, out.simulation, run));
    return out;
  }

  Result<std::vector<Trial>> trials(const Differences& differences, const TrialSteps& steps,
                                    const TrialsRequest& request) {
    RankSimulation programs;
    FORESHARD_TRY(make_programs(differences, programs));
    const auto dies = [](const RankTraits& rank) { return rank.dead_from != kNeverDies; };
    if (programs.out_of_memory_workload || std::any_of(traits_.begin(), traits_.end(), dies))
      return fail(ErrorKind::usage, "a job that does not end its steps has no times to draw", "--jitter");
    return simulate_trials(machine_, job_request(), steps, request);
  }

 private:
  /// A workload as ranks with equal links run it.
  struct Program {
    std::uint32_t workload = 0;
    std::vector<GroupLinks> links;  // by communicator; empty: all links are as the machine's
    std::unique_ptr<HostProgram> log;
    double network_slowdown = 1;  // RankGroup's
  };

  /// One for each workload, up to the first that runs out of memory; fills `out` with what is known of them.
  Result<void> make_programs(const Differences& differences, RankSimulation& out) {
    traits_.resize(settings_.world());
    for (const RankDifference& difference : differences.ranks) FORESHARD_TRY(take(difference));
    FORESHARD_TRY(check_links(differences));
    for (std::uint32_t i = 0; i < workloads_.size(); ++i) {
      auto logged = log_of(*workloads_[i], settings_, machine_, request_);
      FORESHARD_TRY(logged);
      if (i == 0) out.alike = logged->step;
      out.reserved.push_back(logged->reserved);
      if (logged->out_of_memory) {
        out.out_of_memory_workload = i;
        return {};
      }
      programs_.push_back({i, {}, std::make_unique<HostProgram>(std::move(logged->program)), 1});
    }
    FORESHARD_TRY(same_collectives());
    machine_.network.slow_adapters = differences.slow_adapters;
    machine_.links.slow_links = differences.slow_links;
    if (links_differ()) FORESHARD_TRY(price_links());
    for (const RankDifference& difference : differences.ranks) FORESHARD_TRY(let_die(difference));
    return {};
  }

  /// Once the program is known, whose steps it counts.
  Result<void> let_die(const RankDifference& difference) {
    if (difference.dead_from == kNeverDies) return {};
    RankTraits& traits = traits_[difference.rank];
    const std::size_t steps = programs_[traits.program].log->step_ends.size();
    traits.dead_from = difference.dead_from == kDiesInReportedStep ? static_cast<std::uint32_t>(steady_step(steps))
                                                                   : difference.dead_from;
    if (traits_.size() < 2)
      return fail(ErrorKind::usage, "a job of one rank ends with it: nobody waits", "--dead-rank");
    if (traits.dead_from >= steps)
      return fail(ErrorKind::usage, fmt::format("steps 0 to {} are planned, not step {}", steps - 1, traits.dead_from),
                  "--dead-rank", "later steps are like the last but one");
    return {};
  }

  [[nodiscard]] bool links_differ() const {
    return !machine_.network.slow_adapters.empty() || !machine_.links.slow_links.empty();
  }

  Result<void> check_links(const Differences& differences) const {
    for (const SlowAdapter& slow : differences.slow_adapters)
      if (slow.node >= settings_.nodes || slow.adapter >= machine_.network.nics)
        return fail(ErrorKind::usage,
                    fmt::format("there is no adapter {} of node {} in a job of {} nodes with {} adapters", slow.adapter,
                                slow.node, settings_.nodes, machine_.network.nics));
    for (const SlowLink& slow : differences.slow_links)
      if (slow.rank >= traits_.size())
        return fail(ErrorKind::usage, fmt::format("there is no rank {} in a job of {}", slow.rank, traits_.size()));
    return {};
  }

  /// Ranks whose groups have other links than others' run another program: the same calls at other prices.
  Result<void> price_links() {
    const std::vector<CommunicatorOptions> communicators = programs_[0].log->communicators;
    std::vector<Program> programs;
    std::map<std::pair<std::uint32_t, std::uint32_t>, GroupLinks> known;  // by communicator and lowest rank
    for (std::uint32_t rank = 0; rank < traits_.size(); ++rank) {
      Program program{traits_[rank].program, {}, {}, 1};
      for (std::uint32_t c = 0; c < communicators.size(); ++c) {
        const CollectiveRequest group = group_request(communicators[c], rank);
        const auto [found, added] = known.try_emplace({c, *group.first_rank});
        if (added) found->second = links_of(machine_, group);
        program.links.push_back(found->second);
      }
      const auto same = std::find_if(programs.begin(), programs.end(), [&](const Program& other) {
        return other.workload == program.workload && other.links == program.links;
      });
      traits_[rank].program = static_cast<std::uint32_t>(same - programs.begin());
      if (same != programs.end()) continue;
      program.network_slowdown = network_slowdown(communicators, rank);
      SimulationRequest request = request_;
      request.options.rank = rank;
      auto logged = log_of(*workloads_[program.workload], settings_, machine_, request);
      FORESHARD_TRY(logged);
      program.log = std::make_unique<HostProgram>(std::move(logged->program));
      programs.push_back(std::move(program));
    }
    programs_ = std::move(programs);
    return {};
  }

  /// Of the rank's groups, the one that slow adapters hold up most.
  [[nodiscard]] double network_slowdown(const std::vector<CommunicatorOptions>& communicators,
                                        std::uint32_t rank) const {
    MachineProfile healthy = machine_;
    healthy.network.slow_adapters.clear();
    double slowdown = 1;
    for (const CommunicatorOptions& communicator : communicators) {
      const CollectiveRequest group = group_request(communicator, rank);
      const auto rate = [&](const MachineProfile& machine) {
        return links_of(machine, group).network[static_cast<std::size_t>(NodePattern::ring)].rate;
      };
      slowdown = std::max(slowdown, rate(healthy) / rate(machine_));
    }
    return slowdown;
  }

  [[nodiscard]] static CollectiveRequest group_request(const CommunicatorOptions& communicator, std::uint32_t rank) {
    CollectiveRequest request;
    request.ranks = communicator.ranks;
    request.ranks_per_node = communicator.ranks_per_node;
    request.node_stride = communicator.node_stride;
    request.all_nodes = communicator.all_nodes;
    const StridedGroups groups = sim::groups_of(communicator);
    request.first_rank = groups.first(rank);
    request.rank_stride = groups.stride;
    return request;
  }

  [[nodiscard]] const Workload& workload_of(std::uint32_t rank) const {
    return *workloads_[programs_[traits_[rank].program].workload];
  }

  Result<void> take(const RankDifference& difference) {
    if (difference.rank >= traits_.size())
      return fail(ErrorKind::usage, fmt::format("there is no rank {} in a job of {}", difference.rank, traits_.size()));
    RankTraits& traits = traits_[difference.rank];
    traits.kernels *= difference.kernels;
    traits.host *= difference.host;
    if (difference.workload == nullptr) return {};
    const auto known = std::find(workloads_.begin(), workloads_.end(), difference.workload);
    traits.program = static_cast<std::uint32_t>(known - workloads_.begin());
    if (known == workloads_.end()) workloads_.push_back(difference.workload);
    return {};
  }

  /// Else ranks would wait for collectives that others never issue, as they would in a real job.
  Result<void> same_collectives() const {
    const auto work = [](const HostProgram& program) {  // of each, which follows its kind, transport and bytes
      std::vector<std::vector<std::int64_t>> out(program.communicators.size());
      for (std::uint32_t c = 0; c < out.size(); ++c)
        for (const std::uint32_t op : program.table.communicator_ops(c))
          out[c].push_back(program.table.op(OpId{op}).work);
      return out;
    };
    for (const Program& program : programs_)
      if (work(*program.log) != work(*programs_[0].log))
        return fail(ErrorKind::usage, "the ranks' programs do not issue the same collectives", {},
                    "ranks of one job are recordings of the same training");
    return {};
  }

  [[nodiscard]] JobRequest job_request() const {
    JobRequest request;
    for (const Program& program : programs_) request.programs.push_back(program.log.get());
    request.ranks = traits_;
    request.host_scale = request_.options.host_scale;
    request.threads = hardware_threads();
    return request;
  }

  /// With the meetings of the ranks that are shown. Of a large job these are known once it has been played.
  [[nodiscard]] Job play() const {
    JobRequest request = job_request();
    if (traits_.size() > kShownRanks) request.keep_meetings = shown_ranks(simulate_job(machine_, request));
    for (std::uint32_t rank = 0; traits_.size() <= kShownRanks && rank < traits_.size(); ++rank)
      request.keep_meetings.push_back(rank);
    return simulate_job(machine_, request);
  }

  /// The last but one step's end to the last one's, with hosts that cost nothing.
  [[nodiscard]] Nanoseconds free_host_step() const {
    JobRequest request = job_request();
    request.host_scale = 0;
    const Job job = simulate_job(machine_, request);
    const std::vector<Nanoseconds>& ends = job.of(0).step_ends;
    const std::size_t steady = steady_step(ends.size());
    return steady > 0 && steady < ends.size() ? ends[steady] - ends[steady - 1] : Nanoseconds{};
  }

  /// Runs the program of a class once more, on a device whose collectives wait as they did in the job.
  Result<void> again(const Job& job, std::size_t index, Run& run, Simulation& out) const {
    const std::uint32_t rank = job.classes.classes[index].first;
    const RankTraits& traits = traits_[rank];
    SimulationRequest request = request_;
    if (links_differ()) request.options.rank = rank;
    request.options.host_scale *= traits.host;
    request.options.kernel_work = traits.kernels;
    if (job.stuck.empty()) request.options.script = &job.ranks[index].meetings;
    auto simulation = simulate(workload_of(rank), settings_, machine_, request, run);
    FORESHARD_TRY(simulation);
    out = std::move(*simulation);
    return {};
  }

  [[nodiscard]] std::vector<RankGroup> groups_of(const Job& job) const {
    std::vector<RankGroup> out;
    for (const RankClasses::Class& about : job.classes.classes) out.push_back(group_of(about));
    return out;
  }

  [[nodiscard]] RankGroup group_of(const RankClasses::Class& about) const {
    const Program& program = programs_[traits_[about.first].program];
    RankGroup out{about.first, about.count, traits_[about.first], program.workload > 0, 1, program.network_slowdown};
    for (const GroupLinks& links : program.links) out.link_slowdown = std::max(out.link_slowdown, links.link_slowdown);
    return out;
  }

  /// All ranks of a small job, else one of each group.
  [[nodiscard]] std::vector<std::uint32_t> shown_ranks(const Job& job) const {
    std::vector<std::uint32_t> out;
    if (traits_.size() <= kShownRanks) {
      for (std::uint32_t rank = 0; rank < traits_.size(); ++rank) out.push_back(rank);
      return out;
    }
    std::vector<std::size_t> classes;
    for (std::size_t i = 1; i < job.ranks.size(); ++i) classes.push_back(i);
    std::stable_sort(classes.begin(), classes.end(),
                     [&](std::size_t a, std::size_t b) { return job.ranks[a].awaited > job.ranks[b].awaited; });
    classes.resize(std::min(classes.size(), kShownRanks - 1));
    classes.push_back(0);
    std::sort(classes.begin(), classes.end());
    for (const std::size_t i : classes) out.push_back(job.classes.classes[i].first);
    return out;
  }

  Result<void> add_rank_ops(const Job& job, const Simulation& of_rank_0, Run& run) const {
    // From the one before the steady step, at whose end that begins, to the last, whose memory is shown.
    const StepRange steps{static_cast<std::int32_t>(of_rank_0.steady) - 1,
                          static_cast<std::int32_t>(of_rank_0.step_end.size()) - 1};
    std::map<std::uint32_t, Run> runs;                                         // by class
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> numbers;  // by communicator and lowest rank
    for (const std::uint32_t rank : shown_ranks(job)) {
      const std::uint32_t index = job.classes.of_rank[rank];
      const RankClasses::Class& about = job.classes.classes[index];
      if (index > 0 && !runs.contains(index)) {
        Run& other = runs[index];
        other.units = run.units;
        other.labels = workload_of(about.first).labels;
        Simulation ignored;
        FORESHARD_TRY(again(job, index, other, ignored));
      }
      std::vector<std::uint32_t> groups;
      for (std::uint32_t c = 0; c < job.communicators.size(); ++c)
        groups.push_back(
            numbers.try_emplace({c, job.communicators[c].first(rank)}, static_cast<std::uint32_t>(numbers.size()))
                .first->second);
      append_rank_ops(index > 0 ? runs[index] : run, rank, groups, steps, run);
    }
    return {};
  }

  const Settings& settings_;
  MachineProfile machine_;  // from price_links() on with this job's links
  const SimulationRequest& request_;
  std::vector<const Workload*> workloads_;
  std::vector<RankTraits> traits_;  // by rank; `program` is one of workloads_ until price_links()
  std::vector<Program> programs_;
};

}  // namespace

Result<RankSimulation> simulate_ranks(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                                      const SimulationRequest& request, const Differences& differences, Run& run) {
  return RanksSimulation(workload, settings, machine, request).run(differences, run);
}

Result<std::vector<Trial>> simulate_rank_trials(const Workload& workload, const Settings& settings,
                                                const MachineProfile& machine, const SimulationRequest& request,
                                                const Differences& differences, const TrialSteps& steps,
                                                const TrialsRequest& trials) {
  return RanksSimulation(workload, settings, machine, request).trials(differences, steps, trials);
}

}  // namespace foreshard::sim
