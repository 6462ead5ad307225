#include "core/base/suggest.hpp"

#include <algorithm>
#include <vector>

namespace foreshard {
namespace {

/// Words longer than this are cut: nobody mistypes a kilobyte, and the cost is quadratic.
constexpr std::size_t kLongestWord = 128;

std::string folded(std::string_view word) {
  std::string out(word.substr(0, kLongestWord));
  for (char& c : out) {
    if (c == '_') c = '-';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitution});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string_view> known) {
  const std::string wanted = folded(word);
  std::size_t best = std::max<std::size_t>(1, wanted.size() / 3) + 1;
  std::optional<std::string> found;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(wanted, folded(candidate));
    if (distance < best) {
      best = distance;
      found = std::string(candidate);
    }
  }
  return found;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> known) {
  if (const auto near = nearest(word, known)) return "did you mean '" + *near + "'?";
  std::string out;
  for (const std::string_view candidate : known) out += (out.empty() ? "known: " : ", ") + std::string(candidate);
  return out;
}

}  // namespace foreshard
