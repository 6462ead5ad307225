// A PyTorch recording becomes a Run: snapshot, profiler trace and about file read, held against each other,
// and joined; with the workload that plans start from.
//
// Who: cli's import, the reference tests. Thread safety: a free function. Determinism: the same files give the
// same Run (paths are stored as given).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "core/run/step_shapes.hpp"
#include "core/workload/workload.hpp"
#include "traces/import/training_log.hpp"
#include "traces/infer/inference.hpp"

namespace foreshard::traces {

/// Paths; an empty one is not given. At least a snapshot or a trace is needed.
struct ImportRequest {
  std::string snapshot = {};
  std::string trace = {};
  std::string about = {};
  std::vector<std::string> rank_traces = {};  ///< of further ranks of the run, beside `trace`: who waits for whom
  /// What each rank of the run was given, as the recorder says of it, by rank; those that are not known are left out.
  std::vector<RankShape> rank_shapes = {};
  /// Whose `snapshot` and `trace` are: its batch and length stand for the about file's, which are rank 0's. None: not
  /// known.
  std::optional<std::uint32_t> rank = {};
  std::string config = {};                   ///< torchtitan's config.json: settings where there is no about file
  TrainingLogs logs = {};                    ///< step times, where no about file has any
  std::optional<std::uint32_t> device = {};  ///< none: the one that recorded
  bool keep_cpu_ops = false;                 ///< PyTorch's operators as host ops too
  bool workload = true;                      ///< take the step apart into a workload (needs a snapshot)
  std::string machine = {};                  ///< profile that contention is taken out with; empty: by the GPU's name
  std::string name = {};                     ///< of the run; empty: the first file's name without its suffixes
  std::string version = {};                  ///< foreshard's own, to be stored
  std::function<void(std::string_view)> on_stage = {};  ///< hears what is being done; may be empty
};

struct Imported {
  Run run;
  std::optional<Workload> workload;
  std::optional<Inference> inference;  ///< of the snapshot; none without one
};

/// Fails with ErrorKind::input where a file cannot be read, ErrorKind::usage for wrong requests, and
/// ErrorKind::mismatch where the files are not of one run or do not follow FSDP2's rules.
///
/// Of `rank_traces` only device ops are kept (rank_traces.hpp); everything else is of `trace`'s rank.
///
/// Without an about file settings, units and parameters are those that the snapshot settles (traces/infer); where they
/// are too few for a workload there is none, the units have no parameters, and an import stat says why. Without a trace
/// the workload has no timing.
[[nodiscard]] Result<Imported> import_recording(const ImportRequest& request);

/// The same, the run alone.
[[nodiscard]] Result<Run> import_run(const ImportRequest& request);

}  // namespace foreshard::traces
