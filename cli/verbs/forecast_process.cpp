#include "cli/verbs/forecast_process.hpp"

#include "core/allocator/config.hpp"
#include "sim/predict/process_memory_options.hpp"

namespace foreshard::cli {

Result<sim::ForecastProcess> forecast_process(const Planned& planned, const Settings& settings,
                                              const Workload& workload) {
  const auto config = parse_alloc_conf(settings.alloc_conf, settings.pytorch);
  FORESHARD_TRY(config);
  sim::ForecastProcess process;
  process.options.config = *config;
  process.options.memory =
      sim::process_memory_options(workload, settings, planned.machine, planned.memory_limit, true).memory;
  process.options.limit = planned.memory_limit;
  process.options.calls = planned.machine.driver_calls;
  process.options.as_recorded =
      workload.lowering == Lowering::pytorch && settings.alloc_conf == planned.source.settings.alloc_conf;
  return process;
}

}  // namespace foreshard::cli
