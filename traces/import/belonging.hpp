// Whether the files of one import are of one run. A wrong pair that goes unnoticed gives plans that are
// wrong without saying so, so every fact that two files both state is held against each other.
//
// Who: import. Pure. Every failure is ErrorKind::mismatch and says which file disagrees with which, and how.
#pragma once

#include <span>
#include <string>

#include "core/base/error.hpp"
#include "traces/capture/hooks.hpp"
#include "traces/pytorch/about.hpp"
#include "traces/pytorch/profiler_trace.hpp"
#include "traces/pytorch/snapshot_file.hpp"

namespace foreshard::traces {

/// Names of the files, for messages.
struct FileNames {
  std::string snapshot;
  std::string trace;
  std::string about;  ///< the snapshot where there is none: settings and units are then read off it
};

/// Why the recording of another rank than 0 gives no workload, whose sizes are rank 0's: a clause that names a
/// parameter whose rows do not divide by the shard ranks (dim-0 sharding gives the last ranks fewer rows). Empty: it
/// gives one.
[[nodiscard]] std::string uneven_shards(const ProfilerTrace& trace, const Settings& settings,
                                        std::span<const Unit> units);

/// World size, GPU and its SMs, the groups that all-gather, and whether copy engines do. `meshes`: the world has
/// that many meshes of the size that `about` says (Inference::other_ranks). Needs the trace's own run.
[[nodiscard]] Result<void> check_trace(const ProfilerTrace& trace, const About& about, std::uint32_t meshes,
                                       const FileNames& files);

/// The allocator's options.
[[nodiscard]] Result<void> check_snapshot(const SnapshotFile& snapshot, const About& about, const FileNames& files);

/// FSDP's ranges in `file` name exactly the units of `units` (from `units_file`) that have parameters.
[[nodiscard]] Result<void> check_units(std::span<const Range> ranges, std::span<const Unit> units,
                                       const std::string& file, const std::string& units_file);

/// The microbatches of a step in `file`, against accumulate.
[[nodiscard]] Result<void> check_microbatches(const Hooks& hooks, const About& about, const std::string& file,
                                              const FileNames& files);

/// One recording's ranges and hook places, with its file's name.
struct RecordedRanges {
  std::span<const Range> ranges;
  const Hooks& hooks;
  const std::string& file;
};

/// FSDP's ranges come in the same order in the last complete step of both recordings. Another prefetch, reshard or
/// checkpoint setting shows here.
[[nodiscard]] Result<void> check_order(const RecordedRanges& snapshot, const RecordedRanges& trace);

/// What the profiler saw can be the step that was measured without it: profiling slows the host, never the GPU, so
/// a trace's step is not much shorter than the measured ones, and its GPU is not busy for much longer.
struct ProfiledStep {
  double step_ms = 0;
  double compute_busy_ms = 0;
};
[[nodiscard]] Result<void> check_time(const ProfiledStep& profiled, const Measured& measured, const FileNames& files);

}  // namespace foreshard::traces
