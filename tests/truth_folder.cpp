#include "tests/truth_folder.hpp"

#include <cstdlib>
#include <filesystem>

namespace foreshard::test {

std::optional<std::string> truth_folder(const std::string& part) {
  const char* truth = std::getenv("FORESHARD_TRUTH");
  if (truth == nullptr || *truth == '\0') return std::nullopt;
  const std::string folder = part.empty() ? std::string(truth) : std::string(truth) + "/" + part;
  if (!std::filesystem::is_directory(folder)) return std::nullopt;
  return folder;
}

}  // namespace foreshard::test
