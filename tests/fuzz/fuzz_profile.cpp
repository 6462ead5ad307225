// Any text gives a machine profile or an Error; what is accepted after "extends" is laid flat and reads as the same.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/check.hpp"
#include "sim/machine/merge_profile.hpp"
#include "sim/machine/profile.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreshard::sim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto profile = parse_profile(text, "input");
  if (!profile) {
    FORESHARD_CHECK(!profile.error().what.empty(), "an error says what is wrong");
    return 0;
  }
  const auto whole = complete_profile(text, "input");
  FORESHARD_CHECK(whole.has_value(), whole ? "" : whole.error().text());
  const auto again = parse_profile(whole->dump(), "whole");
  FORESHARD_CHECK(again.has_value(), again ? "" : again.error().text());
  FORESHARD_CHECK(again->sources.size() == profile->sources.size(), "every constant survives");
  return 0;
}
