#include "traces/files/text_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "core/base/units.hpp"

namespace foreshard::traces {

Result<std::string> read_text(const std::string& path, Bytes limit) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail(ErrorKind::input, fmt::format("cannot be opened: {}", std::generic_category().message(errno)), path);
  std::string text;
  std::array<char, 65536> piece{};
  errno = 0;
  while (file.read(piece.data(), piece.size()) || file.gcount() > 0) {
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > limit)
      return fail(ErrorKind::input, fmt::format("is larger than {}", format_bytes(limit)), path,
                  "is it the right file?");
  }
  if (file.bad() || errno != 0)
    return fail(ErrorKind::input, fmt::format("cannot be read: {}", std::generic_category().message(errno)), path);
  return text;
}

}  // namespace foreshard::traces
