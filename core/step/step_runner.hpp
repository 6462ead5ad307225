// The host program: walks a workload step by step, applies FSDP2's rules at the hook places, asks the
// caching allocator for memory and issues the work to a Device. Written once for every back end.
//
// Who: sim/predict runs it in virtual time; gpu/ runs it on CUDA. Deterministic given the device's
// answers. Everything that happens is written into a Run.
#pragma once

#include <optional>

#include "core/allocator/caching_allocator.hpp"
#include "core/base/error.hpp"
#include "core/device/device.hpp"
#include "core/device/device_memory.hpp"
#include "core/device/lowering.hpp"
#include "core/run/run.hpp"
#include "core/step/process_memory.hpp"
#include "core/step/values.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

struct StepRequest {
  std::int32_t steps = 4;  ///< run back to back without synchronising; whose time is reported: core/run/steady_step.hpp
  bool setup = true;       ///< run the workload's setup first (false: only time is wanted)
  bool record = true;      ///< fill the Run; off for calibration, where only the outcome counts
  bool ops_alone = false;  ///< then: with device ops, streams and steps alone, which times are found in
  /// The record's times on the host are the number of allocator events before them: of a workload without times.
  bool counts_events = false;
  bool warm = false;  ///< step 0 already runs a steady program: no first-step allocations, no first-step delays
  std::int32_t synchronized = 0;  ///< first steps that end in a cudaDeviceSynchronize; programs that warm up: 1
  /// The last step ends once the device is past the one before, where it would repeat that one (step_repeat.hpp): its
  /// peaks are taken from there. For a device in virtual time whose times alone are wanted, and only where no memory
  /// waits for events (record_stream).
  bool until_repeated = false;
  /// Freed blocks come back when they did in the recording (Workload::returns), whatever the device's events say.
  /// For a device in virtual time at the captured settings alone: on a real one the block may be in use.
  bool repeat_returns = false;

  /// Whose program is issued. With foreshard's, what the recorded process held before its recording is asked of
  /// `memory` anew.
  Lowering lowering = Lowering::pytorch;

  // A device that really runs.
  std::uint32_t rank = 0;             ///< this process's global rank: its shards and their sizes are that rank's
  double learning_rate = 1e-5;        ///< of the optimizer, where the workload computes
  ValueObserver* observer = nullptr;  ///< hears losses and gradients where the workload computes; not owned
};

struct StepOutcome {
  struct Step {
    Nanoseconds host_begin;
    Nanoseconds host_end;
    std::optional<OpId> last_compute_op;  ///< last op put on the compute stream by the step's end
    MemoryPeaks peaks;
    std::int64_t num_alloc_retries = 0;
  };
  std::vector<Step> steps;
  std::optional<OutOfMemory> out_of_memory;  ///< the run ended there
  std::int32_t out_of_memory_step = -1;      ///< −1: in setup
  MemoryPeaks out_of_memory_peaks;           ///< of that step, until then
  /// The host waits for what never comes (core/device/host_stopped.hpp), and the run ended there: in this step, or in
  /// setup (−1). None: it did not, or only once it had issued all steps.
  std::optional<std::int32_t> stopped_step;
  MemoryPeaks stopped_peaks;           ///< of that step, until then; of a run without steps those of setup
  std::uint64_t ops = 0;               ///< device ops issued
  GraphPool graph_pool;                ///< at the end
  std::uint64_t sections_missing = 0;  ///< FSDP sections without a captured cost
  ProcessMemory memory;                ///< where it all lay (process_memory.hpp)
};

/// Runs `workload` (already adapted to `settings`: core/adapt/adapt.hpp) on `device` and `memory`, with the settings as
/// the request's lowering carries them out.
/// Fails with ErrorKind::usage when the settings do not fit the workload.
[[nodiscard]] Result<StepOutcome> run_steps(const Workload& workload, const Settings& settings,
                                            const StepRequest& request, Device& device, DeviceMemory& memory, Run& run);

}  // namespace foreshard
