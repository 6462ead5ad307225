// Fields of the data files that are compiled in (docs/data) and of the baseline: text up to a separator, as words and
// numbers. What does not read is a bug of ours: the files are part of the program.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>

#include "core/base/check.hpp"

namespace foreshard::accuracy {

/// Takes what stands before the next `separator` off `rest`, and the separator.
inline std::string_view next_field(std::string_view& rest, char separator = ',') {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return field;
}

/// All of `text` as a number.
template <class Number>
Number number_field(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  FORESHARD_CHECK(error == std::errc{} && end == text.data() + text.size(), "docs/data: a number");
  return value;
}

/// The place of `word` in `words`.
template <class Words>
std::size_t word_field(const Words& words, std::string_view word) {
  const auto at = std::find(words.begin(), words.end(), word);
  FORESHARD_CHECK(at != words.end(), "docs/data: a known word");
  return static_cast<std::size_t>(at - words.begin());
}

}  // namespace foreshard::accuracy
