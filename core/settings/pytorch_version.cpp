#include "core/settings/pytorch_version.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace foreshard {

std::optional<int> pytorch_minor(std::string_view version) {
  version = version.substr(0, version.find('~'));
  if (version == kMainPyTorch) return kMainMinor;
  if (!version.starts_with("2.")) return std::nullopt;
  version.remove_prefix(2);
  int minor = 0;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), minor);
  if (error != std::errc{}) return std::nullopt;
  const bool clean = end == version.data() + version.size() || *end == '.' || *end == '+';
  return clean ? std::optional<int>(minor) : std::nullopt;
}

std::string version_name(int minor) {
  return minor == kMainMinor ? std::string(kMainPyTorch) : "2." + std::to_string(minor);
}

std::optional<std::string_view> known_pytorch_version(std::string_view version) {
  std::string_view minor = version.substr(0, version.find_first_of("+~"));
  if (const std::size_t dot = minor.find('.'); dot != std::string_view::npos)
    minor = minor.substr(0, minor.find('.', dot + 1));
  const auto* const found = std::find(kKnownPyTorch.begin(), kKnownPyTorch.end(), minor);
  return found == kKnownPyTorch.end() ? std::nullopt : std::optional<std::string_view>(*found);
}

std::optional<std::string_view> nearest_pytorch_version(std::string_view version) {
  int major = 0;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), major);
  if (error != std::errc{} || (end != version.data() + version.size() && *end != '.')) return std::nullopt;
  if (major != 2) return major < 2 ? kKnownPyTorch.front() : kKnownPyTorch.back();
  const std::optional<int> minor = pytorch_minor(version);
  if (!minor) return std::nullopt;
  const auto distance = [&](std::string_view known) { return std::abs(*pytorch_minor(known) - *minor); };
  return *std::min_element(kKnownPyTorch.begin(), kKnownPyTorch.end(),
                           [&](std::string_view a, std::string_view b) { return distance(a) < distance(b); });
}

}  // namespace foreshard
