// Rewrites a workload for settings that change the user's own ops: gradient accumulation, checkpointing, the number of
// blocks a unit holds. What other settings change is FSDP2's part, which core/fsdp adds at the hooks (fsdp2 semantics
// 13.2).
//
// Pure and deterministic. Who: sim/predict and gpu/ before run_steps().
#pragma once

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

struct AdaptedWorkload {
  Workload workload;
  std::vector<std::string> warnings;  ///< where the result is an estimate, one sentence each
  /// Why it has no times: work of the wanted settings that the recording did not time, one sentence each; they are
  /// among the warnings. Empty: it has those of the workload.
  std::vector<std::string> time_unknown = {};
};

/// `workload` at `wanted`. The optimizer's times stay those of the workload's own (sim/predict/price_sections.hpp).
/// Fails with ErrorKind::usage, naming the setting and what would work instead, where a capture cannot tell: another
/// batch, sequence length or compute dtype, …
[[nodiscard]] Result<AdaptedWorkload> adapt(const Workload& workload, const Settings& wanted);

/// Whether adapt() changes ops or units for `wanted`; else the workload is its own.
[[nodiscard]] bool rewrites(const Workload& workload, const Settings& wanted);
/// adapt() where it does not, without a copy: the result's workload is empty.
[[nodiscard]] Result<AdaptedWorkload> leave_as_is(const Workload& workload, const Settings& wanted);

/// Makes every step run `wanted` microbatches where it ran `captured` (fsdp2 semantics 13.3).
[[nodiscard]] Result<void> set_microbatches(Workload& workload, std::uint32_t captured, std::uint32_t wanted);

/// Wraps `wanted` consecutive units together where one block made a unit.
[[nodiscard]] Result<void> merge_units(Workload& workload, std::uint32_t wanted);

/// Recomputes each block's forward in backward (non-reentrant checkpointing of each block inside its
/// unit, fsdp2 semantics 13.4). Allocations and requested peaks are exact; some frees move.
[[nodiscard]] Result<void> checkpoint_blocks(Workload& workload);

}  // namespace foreshard
