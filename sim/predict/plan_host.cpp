#include "sim/predict/plan_host.hpp"

#include <cmath>

#include "core/run/run.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::sim {
namespace {

/// A step that is longer by less is the GPU's: what the first launches of a step wait for.
constexpr double kLonger = 1.002;

}  // namespace

Result<double> host_of_plan(const Workload& adapted, const Settings& settings, const MachineProfile& machine,
                            SimulationRequest simulation, const HostScale& scale) {
  const double recorded = std::sqrt(scale.factor * scale.recorded_factor);
  if (!records_streams(adapted, settings) || scale.host_bound || recorded == scale.factor) return scale.factor;
  if (!adapted.has_timing) return recorded;
  simulation.steps.record = false;
  double steps_ms[2] = {};
  for (int i = 0; i < 2; ++i) {
    simulation.options.host_scale = i == 0 ? scale.factor : recorded;
    Run ignored;
    const auto played = simulate(adapted, settings, machine, simulation, ignored);
    FORESHARD_TRY(played);
    if (played->outcome.out_of_memory || played->deadlock) return recorded;
    steps_ms[i] = played->steady_step().ms();
  }
  return steps_ms[1] > kLonger * steps_ms[0] ? scale.factor : recorded;
}

}  // namespace foreshard::sim
