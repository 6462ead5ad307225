#include "sim/predict/rank_programs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/adapt/skip_unit.hpp"
#include "core/run/steady_step.hpp"
#include "sim/engine/strided_groups.hpp"
#include "sim/network/background_load.hpp"
#include "sim/network/slow_links.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::sim {
namespace {

struct Logged {
  std::vector<OpId> step_ends;
  Nanoseconds step;    // of ranks that all run it
  Bytes reserved = 0;  // the largest peak of its steps
  bool out_of_memory = false;
  bool follows_gpu = false;
};

/// Whether a block that waits for the GPU decides what memory does. Of a recording at its own settings it comes back
/// when it did there (StepRequest::repeat_returns): nothing asks for the time, but with other ranks it would be
/// another.
bool follows_gpu(const Workload& workload, const Settings& settings, const DeviceLog& log) {
  const bool repeats = settings == workload.settings && workload.returns.frees > 0;
  return log.depends_on_time() || (repeats && records_streams(workload, settings));
}

Result<Logged> log_of(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                      const SimulationRequest& request, DeviceLog& log) {
  SimulationRequest logged = request;
  logged.steps.record = false;
  logged.options.log = &log;
  Run ignored;
  const auto simulation = simulate(workload, settings, machine, logged, ignored);
  FORESHARD_TRY(simulation);
  Bytes reserved = 0;
  for (const StepOutcome::Step& step : simulation->outcome.steps) reserved = std::max(reserved, step.peaks.reserved);
  if (follows_gpu(workload, settings, log)) return Logged{{}, {}, reserved, false, true};
  if (simulation->outcome.out_of_memory) return Logged{{}, {}, reserved, true, false};
  std::vector<OpId> ends;
  for (const StepOutcome::Step& step : simulation->outcome.steps)
    if (step.last_compute_op) ends.push_back(*step.last_compute_op);
  return Logged{std::move(ends), simulation->steady_step(), reserved, false, false};
}

class ProgramsOfRanks {
 public:
  ProgramsOfRanks(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                  const SimulationRequest& request)
      : settings_(settings), request_(request) {
    out_.machine = machine;
    out_.workloads = {&workload};
  }

  Result<RankPrograms> make(const Differences& differences) {
    out_.traits.resize(settings_.world());
    for (const RankDifference& difference : differences.ranks) FORESHARD_TRY(take(difference));
    for (const RankDifference& difference : differences.ranks) FORESHARD_TRY(leave_out(difference));
    const UsedNodes used{out_.machine.network, out_.machine.links.gpus, settings_.gpus, settings_.nodes};
    FORESHARD_TRY(check_slow_links(used, differences.slow_adapters, differences.slow_links));
    FORESHARD_TRY(check_background_load(used, differences.background, differences.slow_adapters));
    for (std::uint32_t i = 0; i < out_.workloads.size(); ++i) {
      DeviceLog log;
      const auto logged = log_of(*out_.workloads[i], settings_, out_.machine, request_, log);
      FORESHARD_TRY(logged);
      if (i == 0) out_.alike = logged->step;
      out_.reserved.push_back(logged->reserved);
      if (logged->follows_gpu) {
        if (!differences.empty()) FORESHARD_TRY(refuse_record_stream(settings_));
        out_.follows_gpu = true;
        return std::move(out_);
      }
      if (logged->out_of_memory) {
        out_.out_of_memory_workload = i;
        out_.told = lowest_with(i);
        return std::move(out_);
      }
      out_.programs.push_back({i, {}, std::make_unique<HostProgram>(host_program(log, logged->step_ends))});
    }
    FORESHARD_TRY(same_communicators());
    if (differences.lengths_differ())
      out_.told = lowest_with(static_cast<std::uint32_t>(std::max_element(out_.reserved.begin(), out_.reserved.end()) -
                                                         out_.reserved.begin()));
    out_.machine.network.slow_adapters = differences.slow_adapters;
    out_.machine.links.slow_links = differences.slow_links;
    out_.machine.network.background = differences.background;
    if (out_.links_differ()) FORESHARD_TRY(price_links());
    for (const RankDifference& difference : differences.ranks) FORESHARD_TRY(let_die(difference));
    FORESHARD_TRY(check_one_lives());
    FORESHARD_TRY(check_one_runs_it());
    return std::move(out_);
  }

 private:
  /// The lowest rank that runs a workload; 0: none does.
  [[nodiscard]] std::uint32_t lowest_with(std::uint32_t workload) const {
    const auto found = std::find_if(out_.traits.begin(), out_.traits.end(),
                                    [&](const RankTraits& traits) { return traits.program == workload; });
    return found == out_.traits.end() ? 0 : static_cast<std::uint32_t>(found - out_.traits.begin());
  }

  /// Once the program is known, whose steps it counts.
  Result<void> let_die(const RankDifference& difference) {
    if (difference.dead_from == kNeverDies) return {};
    RankTraits& traits = out_.traits[difference.rank];
    const std::size_t steps = out_.programs[traits.program].log->step_ends.size();
    traits.dead_from =
        difference.dead_from == kInReportedStep ? static_cast<std::uint32_t>(steady_step(steps)) : difference.dead_from;
    if (traits.dead_from >= steps)
      return fail(ErrorKind::usage, fmt::format("steps 0 to {} are planned, not step {}", steps - 1, traits.dead_from),
                  "--dead-rank",
                  fmt::format("give {}@{}, which stands for every later step", difference.rank, steps - 2));
    return {};
  }

  /// A death is told by who waits for it.
  Result<void> check_one_lives() const {
    if (std::any_of(out_.traits.begin(), out_.traits.end(),
                    [](const RankTraits& traits) { return traits.dead_from == kNeverDies; }))
      return {};
    return fail(ErrorKind::usage, "a job ends with its last rank: nobody waits", "--dead-rank",
                "leave out one rank of it at least");
  }

  /// Nobody waits for a unit that no rank runs.
  Result<void> check_one_runs_it() const {
    if (out_.skips.size() < out_.traits.size()) return {};
    const SkippedUnit& first = out_.skips.begin()->second;
    const auto skips_it = [&](const auto& skip) {
      return skip.second.unit == first.unit && skip.second.from_step == first.from_step;
    };
    if (!std::all_of(out_.skips.begin(), out_.skips.end(), skips_it)) return {};
    return fail(ErrorKind::usage, fmt::format("no rank runs {}: nobody waits for it", first.unit), "--skip-unit",
                "leave out one rank of it at least");
  }

  /// Ranks whose groups have other links than others' run another program: the same calls at other prices.
  Result<void> price_links() {
    const std::vector<CommunicatorOptions> communicators = out_.programs[0].log->communicators;
    std::vector<RankProgram> programs;
    LinksOfGroups links(out_.machine);
    MachineProfile healthy = out_.machine, unloaded = out_.machine;
    healthy.network.slow_adapters.clear();
    unloaded.network.background = {};
    MachineProfile whole = healthy;
    whole.network.background = {};
    LinksOfGroups healthy_links(healthy), unloaded_links(unloaded), whole_links(whole);
    for (std::uint32_t rank = 0; rank < out_.traits.size(); ++rank) {
      RankProgram program{out_.traits[rank].program, {}, {}};
      for (std::uint32_t c = 0; c < communicators.size(); ++c) {
        const CollectiveRequest group = group_request(communicators[c], rank);
        program.links.push_back(links.of(group));
        const auto rate = [](const GroupLinks& of) {
          return of.network[static_cast<std::size_t>(NodePattern::ring)].rate;
        };
        const double here = rate(program.links.back()), healthy_rate = rate(healthy_links.of(group)),
                     whole_rate = rate(whole_links.of(group));
        // With other traffic or without, whichever lets a slow adapter cost more.
        program.network_slowdown =
            std::max({program.network_slowdown, healthy_rate / here, whole_rate / rate(unloaded_links.of(group))});
        program.background_slowdown = std::max(program.background_slowdown, whole_rate / healthy_rate);
      }
      const auto same = std::find_if(programs.begin(), programs.end(), [&](const RankProgram& other) {
        return other.workload == program.workload && other.links == program.links;
      });
      out_.traits[rank].program = static_cast<std::uint32_t>(same - programs.begin());
      if (same != programs.end()) continue;
      SimulationRequest request = request_;
      request.options.rank = rank;
      request.options.node_ranks = settings_.gpus;
      DeviceLog log;
      const auto logged = log_of(*out_.workloads[program.workload], settings_, out_.machine, request, log);
      FORESHARD_TRY(logged);
      program.log = std::make_unique<HostProgram>(host_program(log, logged->step_ends));
      programs.push_back(std::move(program));
    }
    out_.programs = std::move(programs);
    return {};
  }

  [[nodiscard]] CollectiveRequest group_request(const CommunicatorOptions& communicator, std::uint32_t rank) const {
    CollectiveRequest request;
    request.ranks = communicator.ranks;
    request.ranks_per_node = communicator.ranks_per_node;
    request.node_stride = communicator.node_stride;
    request.all_nodes = communicator.all_nodes;
    const StridedGroups groups = sim::groups_of(communicator);
    request.first_rank = groups.first(rank);
    request.rank_stride = groups.stride;
    request.node_ranks = settings_.gpus;
    return request;
  }

  Result<void> take(const RankDifference& difference) {
    FORESHARD_TRY(check_rank(difference.rank, static_cast<std::uint32_t>(out_.traits.size()), ""));
    RankTraits& traits = out_.traits[difference.rank];
    traits.kernels *= difference.kernels;
    traits.host *= difference.host;
    if (difference.workload != nullptr) traits.program = place_of(difference.workload);
    if (difference.workload != nullptr && difference.seq == 0 && !difference.gemms)
      out_.own_sources = out_.own_sources || same_units(*difference.workload, *out_.workloads[0]);
    return {};
  }

  Result<void> leave_out(const RankDifference& difference) {
    if (!difference.skips) return {};
    RankTraits& traits = out_.traits[difference.rank];
    const auto skipped = from_planned_step(difference.rank, *difference.skips);
    FORESHARD_TRY(skipped);
    out_.skips[difference.rank] = *skipped;
    const auto without = without_unit(traits.program, *skipped);
    FORESHARD_TRY(without);
    traits.program = *without;
    return {};
  }

  /// Else their collectives have other names, whatever order they are in.
  [[nodiscard]] static bool same_units(const Workload& a, const Workload& b) {
    return std::equal(a.units.begin(), a.units.end(), b.units.begin(), b.units.end(),
                      [](const Unit& one, const Unit& other) { return one.name == other.name; });
  }

  std::uint32_t place_of(const Workload* workload) {
    const auto known = std::find(out_.workloads.begin(), out_.workloads.end(), workload);
    if (known != out_.workloads.end()) return static_cast<std::uint32_t>(known - out_.workloads.begin());
    out_.workloads.push_back(workload);
    return static_cast<std::uint32_t>(out_.workloads.size() - 1);
  }

  [[nodiscard]] Result<SkippedUnit> from_planned_step(std::uint32_t rank, SkippedUnit skipped) const {
    if (settings_.cuda_graph)
      return fail(ErrorKind::usage, "a replay of a CUDA graph runs every unit that was captured, whatever the data are",
                  "--skip-unit", "leave --cuda-graph out");
    const auto steps = static_cast<std::uint32_t>(request_.steps.steps);
    if (skipped.from_step == kInReportedStep) skipped.from_step = static_cast<std::uint32_t>(steady_step(steps));
    if (skipped.from_step < steps) return skipped;
    return fail(ErrorKind::usage, fmt::format("steps 0 to {} are planned, not step {}", steps - 1, skipped.from_step),
                "--skip-unit", fmt::format("give {}={}@{}", rank, skipped.unit, steps - 1));
  }

  /// Place of that workload without the unit: ranks that skip the same share one.
  Result<std::uint32_t> without_unit(std::uint32_t workload, const SkippedUnit& skipped) {
    const auto known = std::find_if(skipped_.begin(), skipped_.end(), [&](const Skipped& one) {
      return one.of == workload && one.skipped.unit == skipped.unit && one.skipped.from_step == skipped.from_step;
    });
    if (known != skipped_.end()) return known->place;
    const std::vector<Unit>& units = out_.workloads[workload]->units;
    const auto unit =
        std::find_if(units.begin() + 1, units.end(), [&](const Unit& u) { return u.name == skipped.unit; });
    if (skipped.unit.empty() || skipped.unit == "root" || skipped.unit == "the root")
      return fail(ErrorKind::usage, "the root runs in every step: it is the model", "--skip-unit",
                  "name a unit inside it");
    if (unit == units.end())
      return fail(ErrorKind::usage, fmt::format("there is no FSDP unit '{}'", skipped.unit), "--skip-unit",
                  units.size() < 2 ? "the root is the only one"
                                   : fmt::format("the units are {} to {}", units[1].name, units.back().name));
    out_.rewritten.push_back(std::make_unique<Workload>(*out_.workloads[workload]));
    const UnitId id{static_cast<std::uint32_t>(unit - units.begin())};
    if (auto done = skip_unit(*out_.rewritten.back(), id, skipped.from_step, request_.steps.steps); !done) {
      done.error().where = "--skip-unit";
      return tl::unexpected(std::move(done.error()));
    }
    skipped_.push_back({workload, skipped, place_of(out_.rewritten.back().get())});
    return skipped_.back().place;
  }

  /// In which order ranks call collectives is what the job shows; over which groups must be agreed on.
  Result<void> same_communicators() const {
    const auto groups = [](const HostProgram& program) {
      std::vector<StridedGroups> out;
      for (const CommunicatorOptions& one : program.communicators) out.push_back(sim::groups_of(one));
      return out;
    };
    for (const RankProgram& program : out_.programs)
      if (groups(*program.log) != groups(*out_.programs[0].log))
        return fail(ErrorKind::mismatch, "the ranks' programs have other process groups", "--rank-source",
                    "ranks of one job are recordings of the same training");
    return {};
  }

  /// A workload of `out_` without a unit, and whose.
  struct Skipped {
    std::uint32_t of = 0;
    SkippedUnit skipped;
    std::uint32_t place = 0;
  };

  const Settings& settings_;
  const SimulationRequest& request_;
  std::vector<Skipped> skipped_;
  RankPrograms out_;  // traits' `program` is one of its workloads until price_links()
};

}  // namespace

Result<void> refuse_record_stream(const Settings& settings) {
  const bool of_program = settings.release != Release::record_stream &&
                          settings.reduce_scatter_release.value_or(Release::automatic) != Release::record_stream;
  return fail(ErrorKind::usage, "ranks that differ are not simulated where memory follows the GPU's progress",
              "record_stream",
              fmt::format("{}leave out the ranks' differences and --jitter",
                          of_program ? "the program itself calls it: " : "plan it with --release stash, or "));
}

Result<StepLog> step_log(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                         const SimulationRequest& request) {
  DeviceLog log;
  const auto logged = log_of(workload, settings, machine, request, log);
  FORESHARD_TRY(logged);
  if (logged->follows_gpu) FORESHARD_TRY(refuse_record_stream(settings));
  if (logged->out_of_memory)
    return fail(ErrorKind::usage, fmt::format("{} tokens a sample run out of memory", settings.seq.value_or(1)),
                "--lengths", "plan the model at that --seq, which says what fits");
  return StepLog(std::move(log), logged->step_ends);
}

JobRequest job_of(const RankPrograms& ranks, const SimulationRequest& request, const JobFabric& fabric) {
  JobRequest out;
  for (const RankProgram& program : ranks.programs) out.programs.push_back(program.log.get());
  out.ranks = ranks.traits;
  out.host_scale = request.options.host_scale;
  out.threads = request.threads;
  out.fabric = fabric;
  return out;
}

Result<RankPrograms> rank_programs(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                                   const SimulationRequest& request, const Differences& differences) {
  return ProgramsOfRanks(workload, settings, machine, request).make(differences);
}

}  // namespace foreshard::sim
