// The static picture of a stored run: memory by category over the streams' lanes, and what the links carry, on one time
// axis, as SVG.
//
// Who: cli's view. Pure: a run in, a document out. Thread safety: a free function. Determinism: the same run and
// options give the same bytes.
//
// The document stands alone (no scripts, no fonts, no links), and every bar tells its name, start and duration
// where the pointer rests on it.
#pragma once

#include <string>

#include "core/base/error.hpp"
#include "core/link_load/link_load.hpp"
#include "core/run/run.hpp"
#include "viz/scene/block_groups.hpp"
#include "viz/scene/palette.hpp"
#include "viz/scene/window.hpp"

namespace foreshard::viz {

struct TimelineOptions {
  WindowRequest window;
  std::uint32_t width = 1600;           ///< pixels; at least kLeastWidth
  std::optional<std::uint32_t> height;  ///< pixels; none: as much as it needs. Memory takes what the rest leaves
  Theme theme = Theme::light;
  std::optional<GroupBy> by = {};   ///< what the memory is stacked by; none: by category
  std::optional<Bytes> limit = {};  ///< what the caching allocator may take; none: not known
  LinkLoads links = {};             ///< of the run (sim/link_load); a row each under the streams
};

inline constexpr std::uint32_t kLeastWidth = 800;
inline constexpr std::uint32_t kMaxPixels = 20000;

/// Errors: those of choose_window(); those of check_groups(); usage for a width or height that nothing can be drawn in,
/// with what is needed.
[[nodiscard]] Result<std::string> draw_timeline(const Run& run, const TimelineOptions& options);

}  // namespace foreshard::viz
