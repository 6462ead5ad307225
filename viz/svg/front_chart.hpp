// The picture of a search: every point that was tried, its step time against its peak of reserved memory, with the
// front of those for which no other is as fast and as small.
//
// Who: cli's view, of what tune stored. Pure: numbers in, a document out; equal input gives equal bytes. The document
// stands alone (no scripts, no fonts, no links); a point tells its settings where the pointer rests on it, and its mark
// has the point's number in `data-point`, for the page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/quantity.hpp"
#include "viz/scene/palette.hpp"

namespace foreshard::viz {

struct FrontPoint {
  enum class Kind : std::uint8_t {
    tried = 0,    ///< may be answered, and another is as fast and as small
    front = 1,    ///< none is
    no_part = 2,  ///< may not be answered: less sure, retries, or leaves less than the headroom
  };
  Kind kind = Kind::tried;
  std::size_t number = 0;  ///< its place in the search
  double step_ms = 0;
  Bytes reserved = 0;  ///< peak
  std::string text;    ///< shown where the pointer rests
  std::string name;    ///< written beside it: "best", "as asked for"; empty: nothing is
};

struct FrontPicture {
  std::string title;
  std::string headline;
  std::vector<FrontPoint> points;  ///< those that ran and have a time, at least one
  Bytes limit = 0;                 ///< what the peak of reserved memory may be
  std::uint32_t width = 1400;      ///< pixels; at least 400
  Theme theme = Theme::light;
};

[[nodiscard]] std::string draw_front(const FrontPicture& picture);

}  // namespace foreshard::viz
