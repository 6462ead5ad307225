// The colours of a picture, in one place: memory categories, kinds of ops, lines, ink and paper.
//
// Used by the charts of viz/svg. Constant data. The hues are those of Okabe and Ito ("Color Universal Design",
// 2008), which stay apart under the common colour-vision deficiencies: one hue a family (parameters blue,
// gradients orange, optimizer purple, activations green), lighter or darker within it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/workload/workload.hpp"

namespace foreshard::viz {

enum class Theme : std::uint8_t { light = 0, dark = 1 };

/// How an op is drawn.
enum class OpClass : std::uint8_t {
  gemm = 0,
  attention = 1,
  memory_bound = 2,
  copy = 3,
  memset = 4,
  all_gather = 5,
  reduce_scatter = 6,
  all_reduce = 7,
  other_collective = 8,  ///< the program's own: all-to-all, broadcast, reduce, sends and receives
  host_issue = 9,
  host_wait = 10,
};
inline constexpr std::size_t kOpClasses = 11;
inline constexpr std::size_t kCategories = 14;

struct Style {
  std::string_view title;  ///< in the legend
  std::string_view fill;
};

struct Ink {
  std::string_view paper;
  std::string_view text;
  std::string_view faint;  ///< captions and axis numbers
  std::string_view grid;
  std::string_view band;  ///< every second phase's background
  std::string_view allocated;
  std::string_view active;
  std::string_view reserved;
  std::string_view requested;
  std::string_view alarm;
};

[[nodiscard]] Style style(MemoryCategory category);
[[nodiscard]] Style style(OpClass op_class);
[[nodiscard]] const Ink& ink(Theme theme);

/// Hues for what has no colour of its own (units, streams, modules): neighbours differ in hue and in lightness.
[[nodiscard]] std::string_view group_colour(std::size_t number);
/// Of what belongs to no group, and of the groups that are too many to be told apart.
inline constexpr std::string_view kRestColour = "#bdbdbd";
inline constexpr std::string_view kOthersColour = "#8c8c8c";

/// What links carry.
inline constexpr std::string_view kLinkColour = "#3f8f5f";

/// From the axis up: what stays for the whole step first, then what comes and goes.
[[nodiscard]] const std::array<MemoryCategory, kCategories>& stack_order();

}  // namespace foreshard::viz
