// The picture of memory over many steps: reserved and allocated, a point a step, with the steps that made reserved
// memory grow, those in which requests were retried, and the end where the process ran out of memory.
//
// Who: cli's forecast, and view of what it stored. Pure: numbers in, a document out; equal input gives equal bytes. The
// document stands alone (no scripts, no fonts, no links); a mark tells its step and request where the pointer rests on
// it. Where steps are more than pixels, a pixel shows the largest of its steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/quantity.hpp"
#include "viz/scene/palette.hpp"

namespace foreshard::viz {

struct StepMemory {
  Bytes reserved = 0;   ///< peak during the step
  Bytes allocated = 0;  ///< peak during the step
};

struct StepMark {
  enum class Kind : std::uint8_t { growth = 0, retry = 1, out_of_memory = 2 };
  Kind kind = Kind::growth;
  std::size_t step = 0;
  std::string text;  ///< shown where the pointer rests
};

struct StepMemoryPicture {
  std::string title;
  std::string headline;
  std::vector<StepMemory> steps;  ///< by step, at least one
  std::size_t each = 1;           ///< so many steps are one of `steps`, the largest of them
  std::vector<StepMark> marks;    ///< by step
  Bytes limit = 0;                ///< what the allocator may take
  std::uint32_t width = 1400;     ///< pixels; at least 400
  Theme theme = Theme::light;
};

[[nodiscard]] std::string draw_memory_over_steps(const StepMemoryPicture& picture);

}  // namespace foreshard::viz
