// The picture of a step's time: one bar of what the compute stream did, and the critical path below it, a row a
// stretch, on one time axis. Equal layers are one row, so that it reads at any number of them.
//
// Who: cli's explain --time. Pure: a run and its explanation in, a document out; equal input gives equal bytes. The
// document stands alone (no scripts, no fonts, no links), and what has a colour tells its cause and length where the
// pointer rests on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/explain_time/critical_path.hpp"
#include "core/explain_time/time_explanation.hpp"
#include "core/run/run.hpp"
#include "viz/scene/palette.hpp"

namespace foreshard::viz {

struct TimePathOptions {
  std::uint32_t width = 1400;  ///< pixels; at least 900
  Theme theme = Theme::light;
  std::string headline = {};  ///< below the title; empty: time_headline()
};

[[nodiscard]] std::string draw_time_path(const Run& run, const TimeExplanation& explanation,
                                         const std::vector<PathRow>& path, const TimePathOptions& options = {});

}  // namespace foreshard::viz
