// Text that is valid UTF-8 whatever was recorded: readers of pickles refuse anything else (Python, JavaScript). Pure.
#pragma once

#include <string>
#include <string_view>

namespace foreshard::traces {

/// Each byte that is part of no UTF-8 sequence (RFC 3629) becomes U+FFFD.
[[nodiscard]] std::string valid_utf8(std::string_view text);

}  // namespace foreshard::traces
