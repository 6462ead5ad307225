#include "traces/import/file_digest.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "core/base/digest.hpp"

namespace foreshard::traces {

Result<FileDigest> file_digest(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorKind::input, fmt::format("cannot be read: {}", std::strerror(errno)), path);
  Digest hash;
  std::vector<char> buffer(1 << 20);
  FileDigest digest;
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    const auto count = static_cast<std::size_t>(file.gcount());
    hash.add({buffer.data(), count});
    digest.bytes += count;
  }
  if (file.bad()) return fail(ErrorKind::input, "cannot be read to its end", path);
  digest.text = hash.text();
  return digest;
}

}  // namespace foreshard::traces
