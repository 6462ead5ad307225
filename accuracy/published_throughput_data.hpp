// docs/data/published_throughput.csv, compiled in (published_throughput_data.cpp.in).
#pragma once

#include <string_view>

namespace foreshard::accuracy {

extern const std::string_view kPublishedThroughput;

}  // namespace foreshard::accuracy
