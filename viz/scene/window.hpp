// Which part of a run a picture shows: a step, all of them, or a span of time.
//
// Used by timeline.hpp. Pure; deterministic. A run that was planned or executed has one clock. An import has two
// (core/run/run.hpp): memory is then shown from the snapshot's step and the lanes from the trace's step, and the
// two are laid over each other at the steps' begins. Times in a picture count from there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"

namespace foreshard::viz {

struct WindowRequest {
  std::optional<std::int32_t> step = {};  ///< none: the last one
  bool all = false;                       ///< every step; then `step` is not read
  std::optional<Nanoseconds> from = {};   ///< from the step's begin; none: the step's begin
  std::optional<Nanoseconds> to = {};     ///< none: when the host and the compute stream have ended
};

/// A step, as one recording has it.
struct ShownStep {
  std::int32_t index = 0;
  Nanoseconds start;
  Nanoseconds end;
  bool complete = true;  ///< false: memory ran out in it
};

/// One side of the picture on its own clock.
struct Side {
  Recording recording = Recording::run;
  Nanoseconds origin;  ///< time 0 of the picture
  Nanoseconds first;   ///< of the steps asked for, host time
  Nanoseconds last;
  std::vector<ShownStep> steps;  ///< all of the recording, for marks
};

struct Window {
  std::optional<Side> memory;  ///< none: the run has no allocator events, or not that step
  std::optional<Side> lanes;
  Nanoseconds from;  ///< from the origin
  Nanoseconds to;    ///< above `from`
  std::string step;  ///< for people: "step 3", "steps 0–3", "whole recording"
  bool two_clocks = false;
};

/// Errors (usage): a step that is not there, with those that are; an empty span; (input): a run with nothing to draw.
[[nodiscard]] Result<Window> choose_window(const Run& run, const WindowRequest& request);

}  // namespace foreshard::viz
