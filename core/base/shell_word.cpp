#include "core/base/shell_word.hpp"

namespace foreshard {

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) c == '\'' ? out.append("'\\''") : out.append(1, c);
  return out + '\'';
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=,+@%";
  const bool plain = !text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos;
  return plain ? std::string(text) : shell_quoted(text);
}

}  // namespace foreshard
