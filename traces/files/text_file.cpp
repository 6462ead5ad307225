#include "traces/files/text_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "core/base/units.hpp"
#include "traces/files/read_file.hpp"
#include "traces/files/sqlite_head.hpp"

namespace foreshard::traces {

Result<std::string> read_text(const std::string& path, Bytes limit) {
  ReadFile file(path);
  if (!file)
    return fail(ErrorKind::input, fmt::format("cannot be opened: {}", std::generic_category().message(errno)), path);
  std::string text;
  std::array<char, 65536> piece{};
  for (;;) {
    const auto size = file.read(piece);
    if (!size)
      return fail(ErrorKind::input, fmt::format("cannot be read: {}", std::generic_category().message(errno)), path);
    text.append(piece.data(), *size);
    if (text.starts_with(kSqliteMagic))
      return fail(ErrorKind::input, std::string(kIsStore) + ", not a text", path,
                  "plan, explain, view, compare and query take run stores");
    if (text.size() > limit)
      return fail(ErrorKind::input, fmt::format("is larger than {}", format_bytes(limit)), path,
                  "is it the right file?");
    if (*size < piece.size()) return text;
  }
}

}  // namespace foreshard::traces
