// Any text gives an about file's content or an Error; what is accepted has consistent settings and units.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/pytorch/about.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto about = foreshard::traces::parse_about(std::string(reinterpret_cast<const char*>(data), size), "input");
  if (!about) return 0;
  FORESHARD_CHECK(foreshard::check(about->settings).has_value(), "accepted settings hold together");
  FORESHARD_CHECK(!about->units.empty() && about->units.front().name.empty(), "the root comes first");
  for (const auto& unit : about->units)
    for (const auto& parameter : unit.parameters)
      FORESHARD_CHECK(parameter.numel() > 0 && parameter.numel() <= (std::uint64_t{1} << 48), "sizes are bounded");
  return 0;
}
