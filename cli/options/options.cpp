#include "cli/options/options.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/base/quantity.hpp"
#include "traces/files/write_all.hpp"
#include "traces/store/atomic_file.hpp"

namespace foreshard::cli {
namespace {

/// Into a file that is there; false with errno set. A call that a signal interrupts is made again.
bool put_text(const std::string& path, std::string_view text) {
  int file = -1;
  do file = ::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  while (file < 0 && errno == EINTR);
  if (file < 0) return false;
  const bool written = traces::write_all(file, text);
  const int error = errno;
  const bool closed = ::close(file) == 0 || errno == EINTR;
  if (!written) errno = error;
  return written && closed;
}

}  // namespace

Result<void> may_write(const std::string& path, bool force) {
  return traces::may_create(path, force);
}

Result<void> may_append(const std::string& path, bool force) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_fifo(status) || std::filesystem::is_character_file(status)) return {};
  return may_write(path, force);
}

Result<void> is_no_input(const std::string& output, std::span<const std::string> inputs) {
  std::error_code error;
  for (const std::string& input : inputs)
    if (!output.empty() && std::filesystem::equivalent(output, input, error))
      return fail(ErrorKind::usage, "is read as well: it would be lost", output, "give the output another name");
  return {};
}

Result<void> write_text(const std::string& path, const std::string& text, bool force) {
  auto file = traces::AtomicFile::create(path, force);
  FORESHARD_TRY(file);
  if (!put_text(file->temporary_path(), text))
    return fail(ErrorKind::input, fmt::format("cannot be written: {}", std::strerror(errno)), path);
  return file->commit();
}

Error in_file(Error error, const std::string& path) {
  if (error.where == path || error.where.starts_with(path + ",")) return error;
  error.where = error.where.empty() ? path : path + ", " + error.where;
  return error;
}

Error in_run(Error error, const std::string& run, const std::string& path) {
  return error.where.empty() || error.where == run ? in_file(std::move(error), path) : error;
}

}  // namespace foreshard::cli
