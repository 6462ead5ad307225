// Any text gives one node's topology or an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.hpp"
#include "sim/calibrate/topology.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreshard::sim;
  const auto read = read_topology(std::string_view(reinterpret_cast<const char*>(data), size), "input");
  if (read) FORESHARD_CHECK(read->node && read->node->gpus > 0, "a topology names GPUs");
  if (!read) FORESHARD_CHECK(!read.error().what.empty(), "an error says what is wrong");
  return 0;
}
