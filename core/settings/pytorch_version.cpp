#include "core/settings/pytorch_version.hpp"

#include <algorithm>
#include <charconv>

namespace foreshard {

std::optional<int> pytorch_minor(std::string_view version) {
  if (!version.starts_with("2.")) return std::nullopt;
  version.remove_prefix(2);
  int minor = 0;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), minor);
  if (error != std::errc{}) return std::nullopt;
  const bool clean = end == version.data() + version.size() || *end == '.' || *end == '+';
  return clean ? std::optional<int>(minor) : std::nullopt;
}

std::optional<std::string_view> known_pytorch_version(std::string_view version) {
  std::string_view minor = version.substr(0, version.find('+'));
  if (const std::size_t dot = minor.find('.'); dot != std::string_view::npos)
    minor = minor.substr(0, minor.find('.', dot + 1));
  const auto* const found = std::find(kKnownPyTorch.begin(), kKnownPyTorch.end(), minor);
  return found == kKnownPyTorch.end() ? std::nullopt : std::optional<std::string_view>(*found);
}

}  // namespace foreshard
