// Text as a POSIX shell takes it. Pure.
#pragma once

#include <string>
#include <string_view>

namespace foreshard {

/// One word in single quotes: "it's" as 'it'\''s'.
[[nodiscard]] std::string shell_quoted(std::string_view text);

/// One word, quoted where it has to be.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace foreshard
