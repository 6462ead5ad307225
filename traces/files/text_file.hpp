// A text file that is read whole: configurations, workloads, measurements.
#pragma once

#include <string>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"

namespace foreshard::traces {

/// The whole of a file of at most `limit` bytes, a device or a pipe as far as that. Errors (input) name the file.
[[nodiscard]] Result<std::string> read_text(const std::string& path, Bytes limit = 64 * kMiB);

}  // namespace foreshard::traces
