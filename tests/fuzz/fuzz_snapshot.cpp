// Any bytes, packed or not, pickle or JSON, give a snapshot or an Error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.hpp"
#include "traces/pytorch/snapshot.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto source =
      foreshard::traces::ByteSource::from_memory("input", std::string(reinterpret_cast<const char*>(data), size));
  if (!source) return 0;
  const auto file = foreshard::traces::read_snapshot(*source, {.device = std::nullopt, .limit = 16 * foreshard::kMiB});
  if (!file) {
    FORESHARD_CHECK(!file.error().what.empty(), "an error says what is wrong");
    return 0;
  }
  for (const auto& segment : file->snapshot.segments)
    FORESHARD_CHECK(segment.device == file->snapshot.device, "only the chosen device's segments are kept");
  return 0;
}
