// The pictures of what a search or a forecast left in a run's results: the front of what tune tried, and memory over
// the steps of a forecast.
//
// Who: tune and forecast store, view and its page draw. Pure; equal results give equal bytes. What a store has not, or
// what cannot be read, is no picture.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/output.hpp"
#include "core/run/run.hpp"
#include "viz/svg/front_chart.hpp"
#include "viz/svg/memory_over_steps.hpp"

namespace foreshard::cli {

/// Keys of Run::results.
inline constexpr std::string_view kTuneResult = "tune";               ///< tune_json()
inline constexpr std::string_view kStepMemoryResult = "step_memory";  ///< step_memory_json()
inline constexpr std::string_view kFrontRunsResult = "front_runs";    ///< of each kept point: `point`, `run`: its store

[[nodiscard]] std::optional<viz::FrontPicture> stored_front(const Run& run);
[[nodiscard]] std::optional<viz::StepMemoryPicture> stored_step_memory(const Run& run);

/// What a forecast that a store holds answered, with its own peak, and whose the rest of the store is; empty: there is
/// none.
[[nodiscard]] std::vector<std::string> forecast_lines(const Run& run);

/// What stored_step_memory() reads: all of a picture but its size and theme.
[[nodiscard]] Json step_memory_json(const viz::StepMemoryPicture& picture);

/// A point of the front whose steps are kept in a store of its own.
struct FrontRun {
  std::size_t point = 0;
  std::string run;  ///< the store's path, seen from the folder of the store that names it
};
[[nodiscard]] std::vector<FrontRun> stored_front_runs(const Run& run);

/// The page's piece "pictures" (docs/view.md): each in both themes; empty where there is none.
[[nodiscard]] Json pictures_json(const Run& run);

}  // namespace foreshard::cli
