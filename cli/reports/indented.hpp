// Lines of Python or of an environment below the remedy that they set.
#pragma once

#include <string>

namespace foreshard::cli {

/// Each line behind four blanks, with a newline behind the last.
[[nodiscard]] inline std::string indented(const std::string& text) {
  std::string out = "    ";
  for (const char c : text) out += c == '\n' ? std::string("\n    ") : std::string(1, c);
  return out + '\n';
}

}  // namespace foreshard::cli
