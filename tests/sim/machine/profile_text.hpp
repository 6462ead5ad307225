// The built-in profile's text, changed in places, and the error that follows.
#pragma once

#include <string>
#include <string_view>

#include "sim/machine/profile.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {

inline std::string h200() {
  return std::string(*builtin_profile_json("h200"));
}

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  INFO(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

inline Error error_of(const std::string& json) {
  const Result<MachineProfile> profile = parse_profile(json, "machine.json");
  REQUIRE_FALSE(profile);
  CHECK(profile.error().kind == ErrorKind::input);
  return profile.error();
}

}  // namespace foreshard::sim
