// docs/data/contention_rows.txt, compiled in.
#pragma once

#include <string_view>

namespace foreshard::sim {

extern const std::string_view kContentionRows;

}  // namespace foreshard::sim
