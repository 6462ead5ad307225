// How an executed run is shown and stored, with its plan beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/planning.hpp"
#include "cli/terminal/console.hpp"
#include "cli/terminal/output.hpp"
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
  std::optional<bool> equal_at_addresses = {};  ///< equal_at_addresses() of this
};

/// Where the plan's peaks are not the run's: whether those of a plan with the addresses that the driver gave this run
/// are. Best fit breaks ties between equal free blocks by address, which no plan can know; true leaves no other cause.
/// Nothing where the peaks are equal anyway, where there is no plan, and where it is of a recording at other settings.
[[nodiscard]] std::optional<bool> equal_at_addresses(const RunReport& report);

/// plan's keys with measured values, then `plan`, `difference`, `ranks` and what only a run knows (docs/gpu.md).
[[nodiscard]] Json run_json(const RunReport& report);
void print_run(Console& console, const RunReport& report);

}  // namespace foreshard::cli
