// Which part of a run a picture shows: a step, all of them, or a span of time.
//
// Used by timeline.hpp. Pure; deterministic. A run that was planned or executed has one clock. An import has two
// (core/run/run.hpp): memory is then shown from the snapshot's step and the lanes from the trace's step, and memory
// is laid over the lanes by its phases (memory_clock.hpp). Times in a picture count from the lanes' step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "viz/scene/memory_clock.hpp"

namespace foreshard::viz {

struct WindowRequest {
  std::optional<std::int32_t> step = {};  ///< none: the last one; of a plan that hangs from there to the end
  bool all = false;                       ///< every step; then `step` is not read
  std::optional<Nanoseconds> from = {};   ///< from the step's begin; none: the step's begin
  std::optional<Nanoseconds> to = {};     ///< none: when the host and the compute stream have ended
};

/// A step, as one recording has it.
struct ShownStep {
  std::int32_t index = 0;
  Nanoseconds start;
  Nanoseconds end;
  bool complete = true;  ///< false: memory ran out in it, or the job hung before its end
};

/// One side of the picture on its own clock.
struct Side {
  Recording recording = Recording::run;
  Nanoseconds origin;  ///< time 0 of the picture
  Nanoseconds first;   ///< of the steps asked for, host time
  Nanoseconds last;
  std::vector<ShownStep> steps;       ///< all of the recording, for marks
  std::vector<ClockKnot> knots = {};  ///< of memory that is on another clock than the lanes, or laid over the GPU
  Nanoseconds axis_origin = {};       ///< where there are knots: time 0 of the picture on the lanes' clock

  /// Where a time of this side's clock is in the picture, from its time 0.
  [[nodiscard]] Nanoseconds place(Nanoseconds time) const {
    return knots.empty() ? time - origin : placed(knots, time) - axis_origin;
  }
};

struct Window {
  std::optional<Side> memory;  ///< none: the run has no allocator events, or not that step
  std::optional<Side> lanes;
  Nanoseconds from;  ///< from the origin
  Nanoseconds to;    ///< above `from`
  std::string step;  ///< for people: "step 3", "steps 0–3", "whole recording"
  bool two_clocks = false;
  MemoryOver memory_over = MemoryOver::host;
  bool steps_differ = false;  ///< recorded steps do not repeat one another: memory's may have other lengths
};

/// The steps that memory and lanes have in common: those that `window` shows, and those before them.
[[nodiscard]] std::vector<SteppedPair> stepped_pairs(const Run& run, const Window& window);

/// What the picture's memory is laid over, as one line; empty where memory and lanes are on one clock, as recorded.
[[nodiscard]] std::string clock_note(const Window& window);

/// `window` with its memory laid over the host or the GPU.
[[nodiscard]] Window with_memory_over(const Run& run, Window window, MemoryOver over);

/// Errors (usage): a step that is not there, with those that are; an empty span; (input): a run with nothing to draw.
[[nodiscard]] Result<Window> choose_window(const Run& run, const WindowRequest& request);

}  // namespace foreshard::viz
