// "1 retry", "47 retries".
//
// Who: reports. Pure.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace foreshard::cli {

[[nodiscard]] inline std::string counted(std::int64_t count, const char* one, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

}  // namespace foreshard::cli
