// The machine profiles that are compiled into the library; profile.hpp is what others use.
#pragma once

#include <span>
#include <string_view>

namespace foreshard::sim {

struct BuiltinProfile {
  std::string_view name;
  std::string_view json;
};

[[nodiscard]] std::span<const BuiltinProfile> builtin_profiles();

}  // namespace foreshard::sim
