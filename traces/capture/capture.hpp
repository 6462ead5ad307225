// Capture → workload: takes a recorded PyTorch run apart into FSDP2's part, which the schedule can make
// again under any settings, and the user's part, which stays as recorded.
//
// Who: import (traces/import/import.hpp). Pure and deterministic.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/allocator/snapshot.hpp"
#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "core/workload/workload.hpp"
#include "traces/capture/timing.hpp"

namespace foreshard::traces {

struct CaptureInput {
  const Snapshot& snapshot;
  /// What the allocator held before the first event (core/allocator/replay.hpp).
  std::span<const SnapshotSegment> initial_segments;
  const Settings& settings;  ///< of the recorded run
  std::vector<Unit> units;
  std::uint32_t sm_count;            ///< of the recorded GPU
  bool requires_grad_known = false;  ///< the units say which parameters are trained; else the recording does
  /// Of each of the optimizer's param_groups its parameters, in order; empty: the recording shows them.
  std::vector<std::vector<ParameterId>> optimizer_param_groups = {};
  std::optional<Measured> measured = {};
  const StepTiming* timing = nullptr;  ///< the time side; null: the workload has no timing
  std::string name = {};
  std::string gpu = {};
  std::string torch = {};
};

/// What recognition knows about each allocation of the snapshot, in order, for the run store.
struct AllocationNote {
  MemoryCategory category = MemoryCategory::other;
  UnitId unit;
  ParameterId parameter;
  std::int32_t step = -1;
  TensorId tensor = {};  ///< in its step's program; invalid: FSDP's or the optimizer's
  LabelId op = {};       ///< of the workload's labels, as is …
  LabelId module = {};   ///< … the module (core/run/allocation_names.hpp)
};

/// A step of the profiler trace, and what it is of.
struct SizedStep {
  std::int32_t index = 0;  ///< as the trace numbers it
  RecordedStep size;
};

struct Capture {
  Workload workload;
  /// Where recorded steps differ (Workload::recorded): the trace's steps whose size is known and not assumed.
  std::vector<SizedStep> profiled;
  bool optimizer_began_before = false;  ///< its requests are the optimizer's, but for the states: made earlier
  std::vector<AllocationNote> allocations;
  std::vector<ImportStat> stats;
};

/// Fails with ErrorKind::mismatch where the recording does not follow FSDP2's rules at these settings, or trains other
/// parameters than the units say.
[[nodiscard]] Result<Capture> read_capture(CaptureInput input);

/// The memory side of the same recording under other settings: whether FSDP2's rules make its requests with them. Its
/// allocations have no names.
[[nodiscard]] Result<Capture> capture_at(const CaptureInput& input, const Settings& settings);

}  // namespace foreshard::traces
