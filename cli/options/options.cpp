#include "cli/options/options.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/strict_json.hpp"
#include "traces/files/text_file.hpp"
#include "traces/files/write_all.hpp"
#include "traces/store/atomic_file.hpp"

namespace foreshard::cli {
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
      return fail(ErrorKind::usage, "is read, or belongs to what is read: it would be lost", output,
                  "give the output another name");
  return {};
}

Result<void> holds_no_input(const std::string& folder, const std::string& input) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const fs::path& file : {fs::absolute(input, error), fs::weakly_canonical(input, error)})
    if (fs::equivalent(file.parent_path(), folder, error))
      return fail(ErrorKind::usage, fmt::format("holds {}, which is read: it would be lost", input), folder,
                  "give the folder another name");
  return {};
}

Result<void> write_text(const std::string& path, const std::string& text, bool force) {
  auto file = traces::AtomicFile::create(path, force);
  FORESHARD_TRY(file);
  if (!traces::put_bytes(file->temporary_path(), text, traces::Put::instead))
    return fail(ErrorKind::input, fmt::format("cannot be written: {}", std::strerror(errno)), path);
  return file->commit();
}

Result<std::string> read_json_file(const std::string& path) {
  auto text = traces::read_text(path);
  FORESHARD_TRY(text);
  const auto json = parse_strict_json(*text, path);
  FORESHARD_TRY(json);
  return text;
}

Error of_file(Error error, const std::string& path) {
  error.kind = ErrorKind::input;
  return in_file(std::move(error), path);
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
