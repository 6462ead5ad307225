// What a framework's folder says of a run beside its recording: torchtitan's config.json and the step times of its log.
//
// Who: import.cpp. Thread safety: free functions. Deterministic.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "core/workload/measured_steps.hpp"
#include "traces/folder/step_log.hpp"
#include "traces/folder/titan_config.hpp"

namespace foreshard::traces {

/// torchtitan's configuration in that file; none where it cannot be read or is another program's, which a stat says:
/// the name alone chose the file.
[[nodiscard]] std::optional<TitanConfig> found_config(const std::string& path, std::vector<ImportStat>& stats);

/// Tokens of a step and device, and the profiled steps, where settings and configuration say them. `recorded`: the
/// settings are held against a recording, so that their microbatches are the step's.
[[nodiscard]] LogUnits log_units(const Settings& settings, bool recorded, const std::optional<TitanConfig>& config);

struct TrainingLogs {
  std::vector<std::string> paths;  ///< the first that has step times is taken
  bool given = false;              ///< by the user, not found by their names
};

/// Step times of the logs, with a stat that says whose and which; none where no log that was found has any. Host times
/// are in no log. A log that was given fails with ErrorKind::input where it cannot be read or has none.
[[nodiscard]] Result<std::optional<Measured>> logged_times(const TrainingLogs& logs, const LogUnits& units,
                                                           std::vector<ImportStat>& stats);

}  // namespace foreshard::traces
