// How an executed run is shown and stored, with its plan beside it.
#pragma once

#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/output.hpp"
#include "cli/planning.hpp"
#include "gpu/cuda/execution.hpp"

namespace foreshard::cli {

/// One rank's measurement as it travels to rank 0, and back. Anything but own words is an Error.
[[nodiscard]] std::string measurement_text(const gpu::RankMeasurement& measured);
[[nodiscard]] Result<gpu::RankMeasurement> parse_measurement(const std::string& text);

/// Everything that run has to say. `plan`: the prediction of the same settings; null where it could not be made.
struct RunReport {
  const std::string& source;
  const Planned& planned;
  const gpu::Execution& execution;
  const std::vector<gpu::RankMeasurement>& ranks;
  const Run& run;
  const sim::Prediction* plan = nullptr;
  std::vector<std::string> warnings;
};

/// plan's keys with measured values, then `plan`, `difference`, `ranks` and what only a run knows (docs/gpu.md).
[[nodiscard]] Json run_json(const RunReport& report);
void print_run(Console& console, const RunReport& report);

}  // namespace foreshard::cli
