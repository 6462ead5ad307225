// Which bytes are UTF-8 (RFC 3629), whatever was recorded.
//
// Used where text leaves for readers that refuse anything else: pickles and XML. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace foreshard {

inline constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";  ///< U+FFFD

/// Bytes of the sequence that `text` begins with; 0 where it begins with none.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

/// Each byte that is part of no sequence becomes U+FFFD.
[[nodiscard]] std::string valid_utf8(std::string_view text);

}  // namespace foreshard
