// One part of a sweep, as another task wrote it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/sweep/sweep_part.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto part = foreshard::sim::parse_part({reinterpret_cast<const char*>(data), size}, "part.json");
  if (part && part->part.size(part->points.size()) > part->points.size()) __builtin_trap();
  return 0;
}
