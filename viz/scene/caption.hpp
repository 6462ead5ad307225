// The words around a picture: what run it shows, with which settings, on what, and what came out.
//
// Used by timeline.cpp. Pure; deterministic.
#pragma once

#include <string>
#include <vector>

#include "core/run/run.hpp"
#include "core/run/step_shapes.hpp"
#include "viz/scene/memory_series.hpp"
#include "viz/scene/window.hpp"

namespace foreshard::viz {

/// "planned: l1b_implicit".
[[nodiscard]] std::string headline(const Run& run);
/// "not valid: …", the first reason and how many there are; empty: its times and memory are.
[[nodiscard]] std::string not_valid(const Run& run);
/// Batch and sequence length of the steps that `window` shows, each size once, ascending; some may not be known.
[[nodiscard]] std::vector<StepShape> shown_sizes(const Run& run, const Window& window);
/// Pieces that may be broken apart into lines: how a planned job ends before its time, that it is not valid, step,
/// machine, versions, settings that differ from the defaults. `sizes`: what stands for the settings' batch and sequence
/// length, each once.
[[nodiscard]] std::vector<std::string> subtitle(const Run& run, const Window& window,
                                                const std::vector<StepShape>& sizes);
[[nodiscard]] std::vector<std::string> subtitle(const Run& run, const Window& window);
/// What came out (times where the run has them, peaks of the shown span), what was given back or not to be had, and
/// whose clocks were laid over each other: pieces for the lines below the picture.
struct CaptionFacts {
  const MemorySeries* memory = nullptr;  ///< none: no memory is shown
  double least_gib = 0;                  ///< categories below it are too thin to be seen and are told in words
  bool pale = false;                     ///< ops of other steps are shown
};
[[nodiscard]] std::vector<std::string> caption(const Run& run, const Window& window, const CaptionFacts& facts);

/// Pieces joined by `separator` into lines of at most `width` at `size`.
[[nodiscard]] std::vector<std::string> wrapped(const std::vector<std::string>& pieces, std::string_view separator,
                                               double width, double size);
/// "15.64 GiB" always in GiB.
[[nodiscard]] std::string gib(std::int64_t bytes);

}  // namespace foreshard::viz
