// A model's three steps, played once on one rank, as the program that each rank of a job repeats.
#pragma once

#include <vector>

#include "core/workload/workload.hpp"
#include "sim/engine/device_log.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/simulate.hpp"
#include "sim/ranks/host_program.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim::test {

struct LoggedProgram {
  HostProgram program;
  Simulation simulation;  ///< of the one rank
};

/// With a host that costs a tenth, so that the GPU sets the step.
inline LoggedProgram logged_program(const Workload& workload, const MachineProfile& machine) {
  DeviceLog log;
  Run ignored;
  SimulationRequest request;
  request.steps = {.steps = 3, .record = false, .warm = true};
  request.options.host_scale = 0.1;
  request.options.log = &log;
  auto simulation = simulate(workload, workload.settings, machine, request, ignored);
  REQUIRE(simulation);
  std::vector<OpId> ends;
  for (const StepOutcome::Step& step : simulation->outcome.steps) ends.push_back(*step.last_compute_op);
  HostProgram program = host_program(log, ends);
  return {std::move(program), std::move(*simulation)};
}

}  // namespace foreshard::sim::test
