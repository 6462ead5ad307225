// A file's size and fingerprint, for the record of a run's inputs.
#pragma once

#include <string>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"

namespace foreshard::traces {

struct FileDigest {
  Bytes bytes = 0;
  std::string text;  ///< "xxh3:" and 16 hexadecimal digits of the file as stored
};

/// Reads the file once, in pieces.
[[nodiscard]] Result<FileDigest> file_digest(const std::string& path);

}  // namespace foreshard::traces
