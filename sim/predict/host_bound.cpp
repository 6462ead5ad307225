#include "sim/predict/host_bound.hpp"

#include <algorithm>
#include <cmath>

#include "sim/predict/simulate.hpp"

namespace foreshard::sim {
namespace {

constexpr double kGains = 1.0005;
constexpr double kMargin = 0.01;  // of HostBound::binds_from

Result<Simulation> steady(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                          const SimOptions& options) {
  Run ignored;
  SimulationRequest request;
  request.steps = {.steps = steps_of_cycle(workload), .record = false, .warm = true};
  request.options = options;
  request.times_driver = false;  // what retries take is told apart (Prediction::retries_ms)
  return simulate(workload, settings, machine, request, ignored);
}

}  // namespace

Result<HostBound> host_bound(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                             double host_scale, double host_range, bool wants_binds_from) {
  HostBound result;
  DeviceLog log;
  SimOptions options{.host_scale = host_scale};
  options.log = &log;
  auto real = steady(workload, settings, machine, options);
  FORESHARD_TRY(real);
  const auto step_ms = [&](const SimOptions& other) -> Result<double> {
    if (!log.depends_on_time()) return steady_step_of_host(*real, log, machine, other).ms();
    const auto again = steady(workload, settings, machine, other);
    FORESHARD_TRY(again);
    return again->steady_step().ms();
  };
  const auto free_host = step_ms({.host_scale = host_scale, .host_free = true});
  FORESHARD_TRY(free_host);
  result.step_ms = real->steady_step().ms();
  // Where kernels and collectives meet otherwise, a host that costs nothing may make a step longer; it need not.
  result.gpu_step_ms = std::min(*free_host, result.step_ms);
  result.faster_ms = result.slower_ms = result.step_ms;
  if (host_range > 0) {
    // A host that costs nothing gains nothing: neither does a faster one.
    if (result.step_ms > kGains * result.gpu_step_ms) {
      const auto faster = step_ms({.host_scale = host_scale * std::exp(-host_range)});
      FORESHARD_TRY(faster);
      result.faster_ms = std::min(result.step_ms, *faster);
    }
    const auto slower = step_ms({.host_scale = host_scale * std::exp(host_range)});
    FORESHARD_TRY(slower);
    result.slower_ms = std::max(result.step_ms, *slower);
  }
  if (settings.expert_parallel > 1 && !settings.offload) {  // which the host waits for, too
    const auto no_waits = step_ms({.host_scale = host_scale, .waits_free = true});
    FORESHARD_TRY(no_waits);
    result.no_waits_ms = *no_waits;
  }
  if (!real->outcome.steps.empty())
    result.host_ms = real->host_worked.ms() / static_cast<double>(real->outcome.steps.size());
  const PredictionSpec& spec = machine.prediction;
  result.host_bound =
      result.step_ms > spec.step_excess * result.gpu_step_ms || result.host_ms > spec.host_share * result.gpu_step_ms;
  const double excess = spec.step_excess * result.step_ms;
  if (!wants_binds_from || result.host_bound || result.slower_ms <= excess) return result;
  double below = 0, above = host_range;  // logarithms of how much slower the host is
  while (above - below > kMargin) {
    const double middle = (below + above) / 2;
    const auto slower = step_ms({.host_scale = host_scale * std::exp(middle)});
    FORESHARD_TRY(slower);
    (*slower > excess ? above : below) = middle;
  }
  result.binds_from = std::exp(above);
  return result;
}

}  // namespace foreshard::sim
