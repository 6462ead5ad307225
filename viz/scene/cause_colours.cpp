#include "viz/scene/cause_colours.hpp"

#include <array>

namespace foreshard::viz {

std::string_view cause_colour(IdleCause cause) {
  constexpr std::array<std::string_view, kEnumSize<IdleCause>> kColours{
      "#7b4ea3", "#a06cc9", "#c79be6", "#8c8c8c", "#bdbdbd", "#d55e00", "#b34700", "#e69f00",
      "#cc3311", "#ee7733", "#f0b35a", "#c2a14d", "#cc79a7", "#009e73", "#56b4e9"};
  return kColours[static_cast<std::size_t>(cause)];
}

}  // namespace foreshard::viz
