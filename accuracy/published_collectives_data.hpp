// docs/data/published_collectives.csv, compiled in (published_collectives_data.cpp.in).
#pragma once

#include <string_view>

namespace foreshard::accuracy {

extern const std::string_view kPublishedCollectives;

}  // namespace foreshard::accuracy
