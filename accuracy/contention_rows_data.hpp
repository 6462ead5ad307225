// docs/data/contention_rows.txt, compiled in.
#pragma once

#include <string_view>

namespace foreshard::accuracy {

extern const std::string_view kContentionRows;

}  // namespace foreshard::accuracy
