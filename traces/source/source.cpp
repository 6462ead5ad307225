#include "traces/source/source.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "traces/store/query.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::traces {
namespace {

constexpr std::string_view kSqlite = "SQLite format 3";
constexpr std::string_view kXz{
    "\xFD"
    "7zXZ",
    5};
constexpr std::string_view kGzip{"\x1F\x8B", 2};
constexpr std::size_t kLargestText = std::size_t{1} << 30;  // no workload comes near it

Result<Workload> from_store(const std::string& path) {
  const auto rows = query(path, "SELECT json FROM workload");
  if (!rows) return tl::unexpected(rows.error());
  if (rows->rows.empty())
    return fail(ErrorKind::input, "the run store holds no workload to plan from", path,
                "import the snapshot again with --about (and --trace for time)");
  return from_json(std::get<std::string>(rows->rows.front().front()), path + " (workload)");
}

}  // namespace

Result<Workload> read_source(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail(ErrorKind::input, "cannot be opened", path,
                "SOURCE is a run store (foreshard import … -o run.db) or a workload file (docs/workload.md)");
  if (std::error_code error; std::filesystem::is_directory(path, error))
    return fail(ErrorKind::input, "is a directory", path,
                "SOURCE is a run store (foreshard import … -o run.db) or a workload file (docs/workload.md)");
  std::array<char, 16> head{};
  file.read(head.data(), head.size());
  const std::string_view start(head.data(), static_cast<std::size_t>(file.gcount()));
  if (start.starts_with(kSqlite)) return from_store(path);
  const bool packed = start.starts_with(kXz) || start.starts_with(kGzip);
  if (packed || start.starts_with('\x80'))
    return fail(ErrorKind::usage, "is a recording, not a run", path,
                "import it first: foreshard import --snapshot … --trace … --about … -o run.db");
  file.clear();
  file.seekg(0, std::ios::end);
  if (static_cast<std::size_t>(file.tellg()) > kLargestText)
    return fail(ErrorKind::input, "is too large for a workload file (1 GiB)", path);
  file.seekg(0);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return from_json(text, path);
}

}  // namespace foreshard::traces
