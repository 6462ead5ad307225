// Any text gives a workload or an Error; what is accepted is written and read back as the same text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.hpp"
#include "traces/workload_file/workload_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreshard;
  const auto workload = traces::from_json(std::string_view(reinterpret_cast<const char*>(data), size), "input");
  if (!workload) return 0;
  const std::string text = traces::to_json(*workload);
  const auto again = traces::from_json(text, "written");
  FORESHARD_CHECK(again.has_value(), again ? "" : again.error().text());
  FORESHARD_CHECK(traces::to_json(*again) == text, "a workload survives being written and read");
  return 0;
}
