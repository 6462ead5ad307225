// Simulated training steps a second at full fidelity on one core: schedule, caching allocator, device and
// record, from the bundled 16-layer Llama capture and of an 8B model; what generating that model's program and what a
// whole prediction takes, calibration included; what the program takes from its start to its end for a plan of that
// capture's store, and what reading its workload takes of that.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/simulate.hpp"
#include "traces/import/import.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace {

using namespace foreshard;

const Workload& workload() {
  static const Workload kWorkload = [] {
    const std::string base = "traces/samples/l1b_implicit";
    traces::ImportRequest request;
    request.snapshot = base + ".pickle.xz";
    request.trace = base + ".trace.json.xz";
    request.about = base + ".about.json";
    auto imported = traces::import_recording(request);
    if (!imported) throw std::runtime_error(imported.error().text());
    return std::move(*imported->workload);
  }();
  return kWorkload;
}

const sim::MachineProfile& machine() {
  static const sim::MachineProfile kMachine = sim::builtin_profile("h200").value();
  return kMachine;
}

void simulated_steps(benchmark::State& state) {
  const bool record = state.range(0) != 0;
  constexpr std::int32_t kSteps = 20;
  for (auto _ : state) {
    Run run;
    sim::SimulationRequest request;
    request.steps = {.steps = kSteps, .record = record};
    auto result = sim::simulate(workload(), workload().settings, machine(), request, run);
    benchmark::DoNotOptimize(result->outcome.ops);
  }
  state.SetItemsProcessed(state.iterations() * kSteps);
}
BENCHMARK(simulated_steps)->ArgName("recorded")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

Settings eight_gpus() {
  Settings settings;
  settings.gpus = 8;
  settings.batch = 1;
  settings.seq = 8192;
  settings.param_dtype = DType::bfloat16;
  settings.reduce_dtype = DType::float32;
  return settings;
}

Workload llama_8b() {
  return generate(preset("llama3-8b").value(), eight_gpus(), machine().host_calls, machine().gpu()).value();
}

void generate_8b(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(llama_8b().steps.size());
}
BENCHMARK(generate_8b)->Unit(benchmark::kMillisecond);

void simulated_steps_8b(benchmark::State& state) {
  const bool record = state.range(0) != 0;
  constexpr std::int32_t kSteps = 20;
  const Workload model = llama_8b();
  for (auto _ : state) {
    Run run;
    sim::SimulationRequest request;
    request.steps = {.steps = kSteps, .record = record};
    auto result = sim::simulate(model, model.settings, machine(), request, run);
    benchmark::DoNotOptimize(result->outcome.ops);
  }
  state.SetItemsProcessed(state.iterations() * kSteps);
}
BENCHMARK(simulated_steps_8b)->ArgName("recorded")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void whole_prediction(benchmark::State& state) {
  Settings settings = workload().settings;
  settings.forward_prefetch = 2;
  for (auto _ : state) {
    auto prediction = sim::predict(workload(), machine(), {settings, {}, 4});
    benchmark::DoNotOptimize(prediction->step_ms);
  }
}
BENCHMARK(whole_prediction)->Unit(benchmark::kMillisecond);

/// Processor seconds of a run of the program, user and system.
double run_program(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), FORESHARD_PROGRAM);
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  int status = -1;
  rusage used{};
  const bool ran = posix_spawn(&child, words[0], &quiet, nullptr, words.data(), environ) == 0 &&
                   wait4(child, &status, 0, &used) == child;
  posix_spawn_file_actions_destroy(&quiet);
  if (!ran || status != 0) throw std::runtime_error(arguments[0] + " " + arguments[1] + " failed");
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// `plan RUN.db -q` of a recording that this program imported.
void plan_of_a_recording(benchmark::State& state) {
  const std::string base = "traces/samples/l1b_implicit";
  const std::string store = (std::filesystem::temp_directory_path() / "foreshard_plan_bench.db").string();
  run_program({"import", "--snapshot", base + ".pickle.xz", "--trace", base + ".trace.json.xz", "--about",
               base + ".about.json", "-o", store, "--force", "-q"});
  for (auto _ : state) state.SetIterationTime(run_program({"plan", store, "-q"}));
  std::filesystem::remove(store);
}
BENCHMARK(plan_of_a_recording)->UseManualTime()->Unit(benchmark::kMillisecond);

void read_workload(benchmark::State& state) {
  const std::string text = traces::to_json(workload());
  for (auto _ : state) benchmark::DoNotOptimize(traces::from_json(text, "run.db")->steps.size());
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
}
BENCHMARK(read_workload)->Unit(benchmark::kMillisecond);

}  // namespace
