// The heat map of a run's ranks as a picture: a row for each rank or group of equal ranks, coloured by what it does,
// and the critical path as it goes from row to row.
//
// Who: cli's view --picture ranks. Pure: a run in, a document out; equal input gives equal bytes. The document stands
// alone, and every row tells its ranks and times where the pointer rests on it. More rows than can be told apart become
// bands of several, each cell in the state that most of their ranks are in.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "viz/scene/palette.hpp"
#include "viz/scene/window.hpp"

namespace foreshard::viz {

struct RankMapOptions {
  WindowRequest window;
  std::uint32_t width = 1600;  ///< pixels; at least kLeastWidth (timeline.hpp)
  Theme theme = Theme::light;
};

/// Errors: those of choose_window(); usage for a width that nothing can be drawn in; input for a run without ops.
[[nodiscard]] Result<std::string> draw_rank_map(const Run& run, const RankMapOptions& options);

}  // namespace foreshard::viz
