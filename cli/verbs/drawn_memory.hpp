// What the allocator comes to reserve where each step's samples have another length.
#pragma once

#include <optional>

#include "cli/options/planning.hpp"
#include "cli/terminal/console.hpp"
#include "core/base/error.hpp"
#include "sim/forecast/lengths.hpp"
#include "sim/predict/trial_times.hpp"

namespace foreshard::cli {

struct DrawnJob {
  const Planned& planned;
  const sim::Lengths& lengths;
  std::uint64_t seed = 0;     ///< of the first process
  std::uint32_t longest = 0;  ///< of the lengths, as they are planned
};

/// As forecast has it: some processes of the planned model, each of which draws its lengths by `seed` and its number.
/// Errors: as run_forecast's.
[[nodiscard]] Result<sim::DrawnMemory> drawn_memory(const DrawnJob& job, Console& console);

/// The first change of settings under which none of these processes runs out of memory, nor one of the longest samples
/// alone: expandable segments, then sim::settings_changes() in their order, then batches of 1 with checkpointed blocks.
/// None: there is none among them.
[[nodiscard]] std::optional<sim::DrawnFit> drawn_fit(const DrawnJob& job, Console& console);

}  // namespace foreshard::cli
