#include "cli/terminal/version.hpp"

#include <fmt/core.h>

namespace foreshard::cli {

std::string version_number() {
  return FORESHARD_VERSION;
}

std::string version_commit() {
  return FORESHARD_GIT;
}

std::string version_text() {
  return fmt::format("foreshard {} ({})\n", FORESHARD_VERSION, FORESHARD_GIT);
}

}  // namespace foreshard::cli
