#include "traces/import/file_digest.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "core/base/digest.hpp"
#include "traces/files/read_file.hpp"

namespace foreshard::traces {

Result<FileDigest> file_digest(const std::string& path) {
  ReadFile file(path);
  if (!file) return fail(ErrorKind::input, fmt::format("cannot be read: {}", std::strerror(errno)), path);
  Digest hash;
  std::vector<char> buffer(1 << 20);
  FileDigest digest;
  for (std::size_t count = buffer.size(); count == buffer.size(); digest.bytes += count) {
    const auto read = file.read(buffer);
    if (!read) return fail(ErrorKind::input, fmt::format("cannot be read to its end: {}", std::strerror(errno)), path);
    count = *read;
    hash.add({buffer.data(), count});
  }
  digest.text = hash.text();
  return digest;
}

}  // namespace foreshard::traces
