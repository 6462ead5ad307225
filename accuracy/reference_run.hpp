// Recorded runs that predictions are held against: a folder of runs/NAME.pickle.xz, NAME.trace.json.xz (or
// NAME.rank0.trace.json.xz where every rank was profiled), NAME.about.json (what `import` reads) and NAME.json (what
// was measured, and in "config" how the run was set up).
//
// Who: cli's accuracy, tests/reference. Reads files; a run depends on its own files alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/allocator/statistics.hpp"
#include "core/base/error.hpp"
#include "core/models/model_config.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::accuracy {

/// What NAME.json measured.
struct MeasuredRun {
  std::vector<double> step_ms;  ///< without the first two
  double median_ms = 0;
  double low_ms = 0;                       ///< second smallest
  double high_ms = 0;                      ///< second largest
  MemoryPeaks peaks;                       ///< of the last recorded step
  std::vector<MemoryPeaks> recorded = {};  ///< of each; zeroes where not said, but for the last
  Bytes reserved_at_end = 0;               ///< peak behind the measured steps; 0: not said
};

/// Where steps differ: median_ms is the mean of the last whole cycles of `cycle` steps, and what is second smallest and
/// second largest are means of as many in a row.
void take_cycles(MeasuredRun& run, std::size_t cycle);

struct ReferenceRun {
  std::string name;
  Workload workload;  ///< as the recording's import gives it, with its settings
  MeasuredRun measured;
  std::string model_name;            ///< "config"'s own: "llama-1b"
  std::optional<ModelConfig> model;  ///< that stands for the run's; none where no preset or family does
  std::string program_name;          ///< of `program`, for people: "llama-1b 4x2048"
  std::string program;               ///< runs with equal programs differ in settings that a plan may change
  std::string not_importable;        ///< why; `workload`, `model` and `program` are empty then
  /// What the run did that neither its model nor its settings say: "rank 5 computes more than the others". A prediction
  /// from the model is of something else then.
  std::string beyond_model;
  /// Its times are of replays of such a graph, which its recording does not show.
  std::optional<CudaGraph> graph;
};

/// Names in `folder` (the one that holds NAME.json), sorted.
[[nodiscard]] Result<std::vector<std::string>> reference_run_names(const std::string& folder);
[[nodiscard]] Result<MeasuredRun> read_measured(const std::string& folder, const std::string& name);
/// Fails where NAME.json is wrong. A recording that import refuses is a run that says why (`not_importable`).
[[nodiscard]] Result<ReferenceRun> read_reference_run(const std::string& folder, const std::string& name);

/// The model that a run's own words name: NAME.json's "config", and the about file's model_config where there is one.
/// None where no preset or family stands for it.
[[nodiscard]] Result<std::optional<ModelConfig>> model_of_run(const std::string& folder, const std::string& name);

}  // namespace foreshard::accuracy
