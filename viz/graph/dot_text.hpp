// Text inside DOT. Private to viz/graph.
#pragma once

#include <string>
#include <string_view>

namespace foreshard::viz {

/// Inside a quoted DOT string: backslashes and quotes escaped, control characters as blanks; U+FFFE and U+FFFF, which
/// XML 1.0 has not, as U+FFFD, for the picture that dot makes of it.
[[nodiscard]] std::string dot_quoted(std::string_view text);

}  // namespace foreshard::viz
