// Any text gives the recorder's problems and the rank's batch and length, or an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.hpp"
#include "traces/folder/recorded_shape.hpp"
#include "traces/folder/recorder_problems.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto problems = foreshard::traces::parse_recorder_problems(text, "rank.json");
  FORESHARD_CHECK(!problems || problems->size() <= size, "each problem has a place in the text");
  const auto shape = foreshard::traces::parse_recorded_shape(text, "rank.json");
  FORESHARD_CHECK(!shape || !*shape || (*shape)->known(), "a shape is known, or there is none");
  return 0;
}
