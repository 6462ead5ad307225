// How outside() (valid_range.hpp) begins each of its sentences, for those that count them among warnings.
#pragma once

#include <string_view>

namespace foreshard::sim {

constexpr std::string_view kOutsideRange = "outside what profile ";

}  // namespace foreshard::sim
