// A run in numbers, whatever made it: what `compare` sets side by side and `import` prints at its end.
//
// Who: verbs that read a store. Pure but for the store's own SQL views, which are the one definition of busy and
// exposed time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/allocator/statistics.hpp"
#include "core/base/error.hpp"
#include "core/run/run.hpp"

namespace foreshard::cli {

struct RunSummary {
  std::string path;
  RunInfo info;
  std::vector<std::pair<std::string, std::string>> setting_options;  ///< key and JSON value, in table order
  std::optional<double> step_ms;
  std::string step_ms_source;        ///< "predicted", "measured" or "profiled" (slower than it really is)
  std::optional<double> compute_ms;  ///< of the last recorded step: work on the compute stream
  std::optional<double> communication_ms;
  std::optional<double> exposed_communication_ms;
  std::optional<MemoryPeaks> peaks;  ///< of the last step whose memory was recorded
  std::int64_t num_alloc_retries = 0;
  std::string fingerprint;                                ///< of the run (fingerprint.hpp); empty: a store without
  std::vector<std::pair<std::string, double>> phases_ms;  ///< host time of the last step's phases, in order
};

/// The step time of a run: predicted, else the median of the unprofiled steps that were measured, the first two
/// left out as warm-up, else the last profiled step's host time.
[[nodiscard]] std::optional<double> step_ms(const Run& run, std::string& source);

/// Of `run`, which was read from the store at `path`, and the store's views. `step`: of that step, and then no step
/// time; none: the last one.
[[nodiscard]] Result<RunSummary> summarise(const Run& run, const std::string& path,
                                           const std::optional<std::int32_t>& step = {});

}  // namespace foreshard::cli
