#include "traces/store/open.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>
#include <system_error>

#include "traces/store/schema.hpp"

namespace foreshard::traces {
namespace {

// The first 16 bytes of every SQLite 3 file (sqlite.org/fileformat2.html, 1.3).
constexpr std::string_view kMagic{"SQLite format 3\0", 16};

Result<void> check_header(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file)
    return fail(ErrorKind::input, "cannot be opened: " + std::generic_category().message(errno), path,
                "give the file that plan, run or import wrote with -o");
  std::array<char, 16> header{};
  const std::size_t size = std::fread(header.data(), 1, header.size(), file.get());
  if (std::ferror(file.get()) != 0)
    return fail(ErrorKind::input, "cannot be read: " + std::generic_category().message(errno), path);
  if (size == 0) return fail(ErrorKind::input, "the file is empty", path, "write the store again");
  if (std::string_view(header.data(), size) == kMagic) return {};
  if (size < kMagic.size() && kMagic.starts_with(std::string_view(header.data(), size)))
    return fail(ErrorKind::input, "the file is cut short", path, "write the store again");
  return fail(ErrorKind::input, "is not a run store: not a SQLite file", path,
              "give the file that plan, run or import wrote with -o");
}

Result<void> check_identity(Connection& connection) {
  const Result<std::int64_t> application = connection.integer("PRAGMA application_id");
  if (!application) return tl::unexpected(application.error());
  if (*application != kApplicationId)
    return fail(ErrorKind::input, "is not a run store: a SQLite file of another program", connection.path(),
                "give the file that plan, run or import wrote with -o");
  const Result<std::int64_t> version = connection.integer("PRAGMA user_version");
  if (!version) return tl::unexpected(version.error());
  if (*version != kSchemaVersion)
    return fail(
        ErrorKind::input,
        fmt::format("the store has schema version {}, and this foreshard reads version {}", *version, kSchemaVersion),
        connection.path(),
        *version > kSchemaVersion ? "read it with a newer foreshard" : "make it again with this foreshard");
  return {};
}

/// Whether every table is a table with our columns: a view in its place could stand for anything.
Result<void> check_tables(Connection& connection) {
  for (const Table& table : tables()) {
    Result<Statement> columns =
        connection.prepare(fmt::format("SELECT c.name FROM pragma_table_list('{}') t, pragma_table_info('{}') c WHERE "
                                       "t.schema='main' AND t.type='table'",
                                       table.name, table.name));
    if (!columns) return tl::unexpected(columns.error());
    std::vector<std::string> names;
    Result<bool> row = columns->step();
    for (; row && *row; row = columns->step()) names.emplace_back(columns->text(0));
    if (!row) return tl::unexpected(row.error());
    for (const Column& column : table.columns)
      if (std::find(names.begin(), names.end(), column.name) == names.end())
        return fail(ErrorKind::input, fmt::format("the store has no column {}.{}", table.name, column.name),
                    connection.path(), "write the store again");
  }
  return {};
}

Result<void> check_complete(Connection& connection) {
  const Result<std::int64_t> complete = connection.integer("SELECT count(*) = 1 AND max(complete) = 1 FROM run");
  if (!complete) return tl::unexpected(complete.error());
  if (*complete != 1)
    return fail(ErrorKind::input, "the store has no completion mark: its writing was cut short", connection.path(),
                "write the store again");
  return {};
}

}  // namespace

Result<Connection> open_store(const std::string& path) {
  if (auto header = check_header(path); !header) return tl::unexpected(header.error());
  Result<Connection> connection = Connection::open(path, OpenMode::read);
  if (!connection) return connection;
  const Result<void> checked =
      check_identity(*connection).and_then([&] { return check_tables(*connection); }).and_then([&] {
        return check_complete(*connection);
      });
  if (!checked) return tl::unexpected(checked.error());
  return connection;
}

}  // namespace foreshard::traces
