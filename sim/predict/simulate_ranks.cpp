#include "sim/predict/simulate_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/run/steady_step.hpp"
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
                "record_stream", "leave out --release record-stream, or the ranks' differences");
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

  Result<RankSimulation> run(const std::vector<RankDifference>& differences, Run& run) {
    traits_.resize(settings_.world());
    for (const RankDifference& difference : differences) FORESHARD_TRY(take(difference));
    RankSimulation out;
    for (const Workload* workload : workloads_) {
      auto logged = log_of(*workload, settings_, machine_, request_);
      FORESHARD_TRY(logged);
      if (programs_.empty()) out.alike = logged->step;
      out.reserved.push_back(logged->reserved);
      if (logged->out_of_memory) {  // there is no step of such a job
        auto alone = simulate(*workload, settings_, machine_, request_, run);
        FORESHARD_TRY(alone);
        out.simulation = std::move(*alone);
        out.out_of_memory_program = static_cast<std::uint32_t>(programs_.size());
        return out;
      }
      programs_.push_back(std::make_unique<HostProgram>(std::move(logged->program)));
    }
    FORESHARD_TRY(same_collectives());
    const Workload& first = *workloads_[traits_[0].program];
    run.units = first.units;
    run.labels = first.labels;
    const Job job = play();
    out.gpu_step = free_host_step();
    out.deadlock = job.deadlock;
    FORESHARD_TRY(again(job, 0, run, out.simulation));
    out.groups = groups_of(job);
    if (request_.steps.record && job.deadlock.empty()) FORESHARD_TRY(add_rank_ops(job, out.simulation, run));
    return out;
  }

 private:
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
    for (const auto& program : programs_)
      if (work(*program) != work(*programs_[0]))
        return fail(ErrorKind::usage, "the ranks' programs do not issue the same collectives", {},
                    "ranks of one job are recordings of the same training");
    return {};
  }

  [[nodiscard]] JobRequest job_request() const {
    JobRequest request;
    for (const auto& program : programs_) request.programs.push_back(program.get());
    request.ranks = traits_;
    request.host_scale = request_.options.host_scale;
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
    const RankTraits& traits = traits_[job.classes.classes[index].first];
    SimulationRequest request = request_;
    request.options.host_scale *= traits.host;
    request.options.kernel_work = traits.kernels;
    if (job.deadlock.empty()) request.options.script = &job.ranks[index].meetings;
    auto simulation = simulate(*workloads_[traits.program], settings_, machine_, request, run);
    FORESHARD_TRY(simulation);
    out = std::move(*simulation);
    return {};
  }

  [[nodiscard]] std::vector<RankGroup> groups_of(const Job& job) const {
    std::vector<RankGroup> out;
    for (const RankClasses::Class& about : job.classes.classes)
      out.push_back({about.first, about.count, traits_[about.first]});
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
        other.labels = workloads_[traits_[about.first].program]->labels;
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
  const MachineProfile& machine_;
  const SimulationRequest& request_;
  std::vector<const Workload*> workloads_;  // by program
  std::vector<RankTraits> traits_;          // by rank
  std::vector<std::unique_ptr<HostProgram>> programs_;
};

}  // namespace

Result<RankSimulation> simulate_ranks(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                                      const SimulationRequest& request, const std::vector<RankDifference>& differences,
                                      Run& run) {
  return RanksSimulation(workload, settings, machine, request).run(differences, run);
}

}  // namespace foreshard::sim
