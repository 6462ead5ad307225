#include "traces/import/file_digest.hpp"

#include <fmt/core.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

namespace foreshard::traces {

Result<FileDigest> file_digest(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorKind::input, fmt::format("cannot be read: {}", std::strerror(errno)), path);
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<char> buffer(1 << 20);
  FileDigest digest;
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    const auto count = static_cast<std::size_t>(file.gcount());
    XXH3_64bits_update(state.get(), buffer.data(), count);
    digest.bytes += count;
  }
  if (file.bad()) return fail(ErrorKind::input, "cannot be read to its end", path);
  digest.text = fmt::format("xxh3:{:016x}", XXH3_64bits_digest(state.get()));
  return digest;
}

}  // namespace foreshard::traces
