// The built page (viz/page/dist/page.html) as part of the program; made by viz/pack/embed.cmake.
#pragma once

#include <string_view>

namespace foreshard::viz {

[[nodiscard]] std::string_view page_template();

}  // namespace foreshard::viz
