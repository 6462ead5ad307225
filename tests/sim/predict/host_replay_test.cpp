// A host of another speed: the logged calls again give what the program itself would have given.
#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/simulate.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

Simulation simulated(const Workload& workload, std::int32_t steps, const SimOptions& options) {
  Run ignored;
  SimulationRequest request;
  request.steps = {.steps = steps, .record = false, .warm = true};
  request.options = options;
  auto simulation = simulate(workload, workload.settings, *builtin_profile("h200"), request, ignored);
  REQUIRE(simulation);
  return std::move(*simulation);
}

Workload tiny_model(const Settings& settings) {
  const MachineProfile machine = *builtin_profile("h200");
  return generate(*preset("llama-tiny"), settings, machine.host_calls, machine.gpu(), true).value();
}

Settings tiny_settings() {
  Settings settings;
  settings.gpus = 4;
  settings.batch = 2;
  settings.seq = 1024;
  settings.param_dtype = DType::bfloat16;
  return settings;
}

TEST_CASE("a logged program on another host takes as long as the program on it") {
  const MachineProfile machine = *builtin_profile("h200");
  for (const bool prefetch : {false, true}) {
    Settings settings = tiny_settings();
    if (prefetch) settings.forward_prefetch = 2;
    const Workload workload = tiny_model(settings);
    for (const std::int32_t steps : {1, 4}) {
      DeviceLog log;
      SimOptions options;
      options.log = &log;
      const Simulation logged = simulated(workload, steps, options);
      REQUIRE_FALSE(log.depends_on_time());
      CHECK(log.ops().size() < log.calls().size() / 4);  // layers share their kernels
      for (const SimOptions& host :
           {SimOptions{}, SimOptions{.host_scale = 0.25}, SimOptions{.host_scale = 3}, SimOptions{.host_free = true}}) {
        INFO(steps << " steps, host " << host.host_scale << ", free " << host.host_free);
        const Simulation direct = simulated(workload, steps, host);
        const HostTimes again = times_of_host(logged, log, machine, host);
        CHECK(again.steady_step == direct.steady_step());
        CHECK(steady_step_of_host(logged, log, machine, host) == direct.steady_step());
        CHECK(again.host == direct.outcome.steps.back().host_end - direct.outcome.steps.front().host_begin);
      }
    }
  }
}

TEST_CASE("a program that looks at the device's time says so") {
  Settings settings = tiny_settings();
  settings.release = Release::record_stream;
  DeviceLog log;
  SimOptions options;
  options.log = &log;
  static_cast<void>(simulated(tiny_model(settings), 4, options));
  CHECK(log.depends_on_time());
}

}  // namespace
}  // namespace foreshard::sim
