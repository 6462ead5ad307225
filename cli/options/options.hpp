// Files that options name: read, and written only where nothing is lost.
#pragma once

#include <string>

#include "core/base/error.hpp"

namespace foreshard::cli {

/// Refuses to write over a file that is there, unless forced.
[[nodiscard]] Result<void> may_write(const std::string& path, bool force);

/// Writes a file that appears under its name only when it is whole; refuses one that is there, unless forced.
[[nodiscard]] Result<void> write_text(const std::string& path, const std::string& text, bool force);

/// The whole of a small text file (settings, prefetch lists), at most 64 MiB.
[[nodiscard]] Result<std::string> read_text(const std::string& path);

}  // namespace foreshard::cli
