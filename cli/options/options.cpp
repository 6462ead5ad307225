#include "cli/options/options.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/quantity.hpp"
#include "traces/store/atomic_file.hpp"

namespace foreshard::cli {

Result<void> may_write(const std::string& path, bool force) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return {};
  if (std::filesystem::is_directory(status)) return fail(ErrorKind::usage, "is a folder", path, "name a file in it");
  if (!force && std::filesystem::is_regular_file(status))
    return fail(ErrorKind::usage, "is there already", path, "give another name, or --force to write over it");
  return {};
}

Result<void> write_text(const std::string& path, const std::string& text, bool force) {
  auto file = traces::AtomicFile::create(path, force);
  FORESHARD_TRY(file);
  std::ofstream out(file->temporary_path(), std::ios::binary);
  out << text;
  out.close();
  if (!out) return fail(ErrorKind::input, "cannot be written", path);
  return file->commit();
}

Result<std::string> read_text(const std::string& path) {
  constexpr std::uintmax_t kMax = 64 * kMiB;
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorKind::input, fmt::format("cannot be read: {}", std::strerror(errno)), path);
  std::string text;
  char buffer[65536];
  while (file.read(buffer, sizeof buffer) || file.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMax) return fail(ErrorKind::input, "is larger than 64 MiB", path, "is it the right file?");
  }
  if (file.bad()) return fail(ErrorKind::input, "cannot be read to its end", path);
  return text;
}

}  // namespace foreshard::cli
