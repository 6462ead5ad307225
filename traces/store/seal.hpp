// The last line of a store: a digest of all bytes before it, so that a flipped bit, a page that a disk lost and another
// program's change are seen when it is opened. It tells accidents, not forgeries. SQLite ignores what follows its
// pages. Private to traces/store and its tests.
#pragma once

#include <cstddef>
#include <string>

#include "core/base/error.hpp"

namespace foreshard::traces {

/// "foreshard contents xxh3:0123456789abcdef", blanks, a line feed.
inline constexpr std::size_t kSealBytes = 64;

/// Appends it to a file of SQLite's. Errors: input, where the file cannot be read or written.
[[nodiscard]] Result<void> seal(const std::string& path);

/// Errors: input, for a file without the line, or whose bytes are others than when it was sealed.
[[nodiscard]] Result<void> check_seal(const std::string& path);

/// Errors: input, for a file beside which another SQLite client left changes that are not in it yet (a journal to be
/// rolled back, a write-ahead log).
[[nodiscard]] Result<void> check_beside(const std::string& path);

}  // namespace foreshard::traces
