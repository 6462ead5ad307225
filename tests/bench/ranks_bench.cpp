// Speed of a job of many ranks: rank-ops a second, folded and each rank unlike the others, by the engine's short ways
// and by its long one; the same where groups meet on links; trials a second.
#include <benchmark/benchmark.h>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/simulate.hpp"
#include "sim/ranks/trials.hpp"

namespace foreshard::sim {
namespace {

HostProgram program_of(const Settings& settings, const MachineProfile& machine, const char* model = "llama-1b") {
  const Workload workload = generate(*preset(model), settings, machine.host_calls, machine.gpu(), true).value();
  DeviceLog log;
  Run ignored;
  SimulationRequest request;
  request.steps = {.steps = 2, .record = false, .warm = true};
  request.options.log = &log;
  const auto simulation = simulate(workload, workload.settings, machine, request, ignored);
  std::vector<OpId> ends;
  for (const StepOutcome::Step& step : simulation->outcome.steps) ends.push_back(*step.last_compute_op);
  return host_program(log, ends);
}

Settings settings_of(const benchmark::State& state) {
  Settings settings;
  settings.gpus = 8;
  settings.nodes = static_cast<std::uint32_t>(state.range(0)) / 8;
  settings.batch = 2;
  settings.seq = 2048;
  settings.param_dtype = DType::bfloat16;
  return settings;
}

void ranks(benchmark::State& state, bool unlike) {
  const MachineProfile machine = *builtin_profile("h100");
  const HostProgram program = program_of(settings_of(state), machine);
  JobRequest request;
  request.programs = {&program};
  request.ranks.resize(static_cast<std::size_t>(state.range(0)));
  if (unlike)
    for (std::size_t i = 0; i < request.ranks.size(); ++i)
      request.ranks[i].kernels = 1 + 1e-5 * static_cast<double>(i * 7919 % 10007);
  std::int64_t ops = 0;
  for (auto _ : state) {
    const Job job = simulate_job(machine, request);
    ops += static_cast<std::int64_t>(program.table.ops().size() * job.classes.classes.size());
  }
  state.SetItemsProcessed(ops);
}
BENCHMARK_CAPTURE(ranks, alike, false)->Arg(8)->Arg(16384)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ranks, unlike, true)->Arg(8)->Arg(512)->Unit(benchmark::kMillisecond);

/// The ranks of docs/performance.md: a deep model, each GPU a little slower than the one before.
void deep(benchmark::State& state, JobRequest request) {
  Settings settings = settings_of(state);
  settings.batch = 1;
  settings.seq = 4096;
  settings.checkpoint = Checkpoint::blocks;
  const MachineProfile machine = *builtin_profile("h200");
  const HostProgram program = program_of(settings, machine, "llama3-405b");
  request.programs = {&program};
  request.ranks.resize(static_cast<std::size_t>(state.range(0)));
  for (std::size_t i = 0; i < request.ranks.size(); ++i) request.ranks[i].kernels = 1 + 1e-5 * static_cast<double>(i);
  std::int64_t ops = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(simulate_job(machine, request));
    ops += static_cast<std::int64_t>(program.table.ops().size() * request.ranks.size());
  }
  state.SetItemsProcessed(ops);
}
/// Both on one thread, so that one run says what the short ways are worth.
BENCHMARK_CAPTURE(deep, short_ways, JobRequest{})->Arg(128)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(deep, long_way, JobRequest{.short_ways = false})->Arg(128)->Unit(benchmark::kMillisecond);
/// As far as it is to reach, with all cores: two steps, of the three that a plan plays.
BENCHMARK_CAPTURE(deep, reach, JobRequest{.threads = hardware_threads()})
    ->Arg(16384)
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// Eight replicas on a fat tree that blocks: their groups meet on its links.
void meeting(benchmark::State& state, JobRequest request) {
  Settings settings = settings_of(state);
  settings.batch = 1;
  settings.seq = 4096;
  settings.replicate = 8;
  MachineProfile machine = *builtin_profile("h200");
  machine.network.leaf_nodes = 4;
  machine.network.oversubscription = 4;
  const HostProgram program = program_of(settings, machine, "llama3-70b");
  const ModelledCollectives prices(machine);
  request.programs = {&program};
  request.ranks.resize(static_cast<std::size_t>(state.range(0)));
  for (std::size_t i = 0; i < request.ranks.size(); ++i)
    request.ranks[i].kernels = 1 + 1e-5 * static_cast<double>(i * 7919 % 1009);
  request.fabric = {&prices, settings.gpus};
  std::int64_t ops = 0;
  for (auto _ : state) {
    const Job job = simulate_job(machine, request);
    if (!job.paced || !job.stuck.empty()) state.SkipWithError("no groups meet, or some do not go on");
    ops += static_cast<std::int64_t>(program.table.ops().size() * request.ranks.size());
  }
  state.SetItemsProcessed(ops);
}
/// On one thread, so that one run says what going ahead is worth.
BENCHMARK_CAPTURE(meeting, ahead, JobRequest{})->Arg(256)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(meeting, in_order, JobRequest{.ahead = false})->Arg(256)->Unit(benchmark::kMillisecond);

/// On one thread, each of two steps.
void trials(benchmark::State& state) {
  const MachineProfile machine = *builtin_profile("h100");
  const HostProgram program = program_of(settings_of(state), machine);
  JobRequest job;
  job.programs = {&program};
  job.ranks.resize(static_cast<std::size_t>(state.range(0)));
  TrialsRequest request;
  request.jitter = {{Spread::Kind::lognormal, 0.02}, {Spread::Kind::lognormal, 0.1}, {Spread::Kind::normal, 0.01}, {}};
  request.trials = 4;
  std::int64_t trials = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(simulate_trials(machine, job, {0, 1}, request));
    trials += request.trials;
    ++request.seed;
  }
  state.SetItemsProcessed(trials);
}
BENCHMARK(trials)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foreshard::sim
