// Any text gives an about file's content or an Error; what is accepted has consistent settings and units.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/pytorch/about.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreshard::traces;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto some = parse_about(text, "input", AboutParts::some);
  const auto about = parse_about(text, "input");
  FORESHARD_CHECK(some || !about, "a whole file is one of some parts");
  if (!about) return 0;
  FORESHARD_CHECK(check_whole(*about, "input").has_value(), "it is whole");
  FORESHARD_CHECK(parse_about(about_json(*about), "input").has_value(), "what is written can be read");
  FORESHARD_CHECK(foreshard::check(about->settings).has_value(), "accepted settings hold together");
  FORESHARD_CHECK(!about->units.empty() && about->units.front().name.empty(), "the root comes first");
  for (const auto& unit : about->units)
    for (const auto& parameter : unit.parameters)
      FORESHARD_CHECK(parameter.numel() > 0 && parameter.numel() <= (std::uint64_t{1} << 48), "sizes are bounded");
  return 0;
}
