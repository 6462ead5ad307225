#include "core/models/name_pattern.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

namespace foreshard::model {
namespace {

using Parts = std::vector<std::string_view>;

Parts components(std::string_view text) {
  Parts out;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t dot = std::min(text.find('.', from), text.size());
    out.push_back(text.substr(from, dot - from));
    from = dot + 1;
  }
  return out;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The pattern A-B; nothing where it is no range.
std::optional<bool> in_range(std::string_view pattern, std::string_view text) {
  const std::size_t dash = pattern.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto least = number(pattern.substr(0, dash));
  const auto most = number(pattern.substr(dash + 1));
  if (!least || !most) return std::nullopt;
  const auto value = number(text);
  return value && *least <= *value && *value <= *most;
}

/// `*` and `?`, going back to the last star where a character does not fit.
bool globs(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool fits_at(const Parts& pattern, const Parts& name, std::size_t at) {
  for (std::size_t i = 0; i < pattern.size(); ++i)
    if (!in_range(pattern[i], name[at + i]).value_or(false) && !globs(pattern[i], name[at + i])) return false;
  return true;
}

}  // namespace

bool names(std::string_view pattern, std::string_view name) {
  const Parts wanted = components(pattern);
  const Parts have = components(name);
  for (std::size_t at = 0; at + wanted.size() <= have.size(); ++at)
    if (fits_at(wanted, have, at)) return true;
  return false;
}

bool names_end(std::string_view pattern, std::string_view name) {
  const Parts wanted = components(pattern);
  const Parts have = components(name);
  return wanted.size() <= have.size() && fits_at(wanted, have, have.size() - wanted.size());
}

}  // namespace foreshard::model
