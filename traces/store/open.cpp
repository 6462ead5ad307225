#include "traces/store/open.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "traces/files/read_file.hpp"
#include "traces/files/sqlite_head.hpp"
#include "traces/store/schema.hpp"
#include "traces/store/seal.hpp"
#include "traces/store/store.hpp"

namespace foreshard::traces {
namespace {

// The header of every SQLite 3 file (sqlite.org/fileformat2.html, 1.3): kSqliteMagic, at byte 16 the page size in two
// big-endian bytes (1 for 65536), at byte 28 the number of pages in four.
constexpr std::size_t kHeaderSize = 100;

std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t out = 0;
  for (const char byte : bytes) out = out << 8 | static_cast<unsigned char>(byte);
  return out;
}

/// Whether the file is as long as its header says. SQLite itself reads a last page that is cut as zeros.
bool whole(const std::string& path, std::string_view header) {
  const std::uint64_t page_size = big_endian(header.substr(16, 2));
  const std::uint64_t expected = (page_size == 1 ? 65536 : page_size) * big_endian(header.substr(28, 4));
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  return !error && size >= expected;
}

Result<void> check_header(const std::string& path) {
  ReadFile file(path, FileKind::regular);
  if (!file)
    return fail(ErrorKind::input, file.why_not(), path, "give the file that plan, run or import wrote with -o");
  std::array<char, kHeaderSize> bytes{};
  const auto size = file.read(bytes);
  if (!size) return fail(ErrorKind::input, "cannot be read: " + std::generic_category().message(errno), path);
  if (*size == 0) return fail(ErrorKind::input, "the file is empty", path, "write the store again");
  const std::string_view header(bytes.data(), *size);
  if (!kSqliteMagic.starts_with(header.substr(0, kSqliteMagic.size())))
    return fail(ErrorKind::input, "is not a run store: not a SQLite file", path,
                "give the file that plan, run or import wrote with -o");
  if (*size < kHeaderSize || !whole(path, header))
    return fail(ErrorKind::input, "the file is cut short", path, "write the store again");
  return {};
}

/// The store's schema version.
Result<std::int64_t> check_identity(Connection& connection) {
  const Result<std::int64_t> application = connection.integer("PRAGMA application_id");
  FORESHARD_TRY(application);
  if (*application != kApplicationId)
    return fail(ErrorKind::input, "is not a run store: a SQLite file of another program", connection.path(),
                "give the file that plan, run or import wrote with -o");
  const Result<std::int64_t> version = connection.integer("PRAGMA user_version");
  FORESHARD_TRY(version);
  if (*version < kOldestSchemaVersion || *version > kSchemaVersion)
    return fail(
        ErrorKind::input,
        fmt::format("the store has schema version {}, and this foreshard reads version {}", *version, kSchemaVersion),
        connection.path(),
        *version > kSchemaVersion ? "read it with a newer foreshard" : "make it again with this foreshard");
  return version;
}

/// Whether every table is a table (a view or virtual table in its place could stand for anything: those have
/// no root page) and has our columns.
Result<void> check_tables(Connection& connection, std::int64_t version) {
  Result<Statement> columns = connection.prepare(
      "SELECT s.name || '.' || c.name FROM sqlite_schema s JOIN pragma_table_info(s.name) c "
      "WHERE s.type = 'table' AND s.rootpage > 0");
  FORESHARD_TRY(columns);
  std::set<std::string, std::less<>> names;
  Result<bool> row = columns->step();
  for (; row && *row; row = columns->step()) names.emplace(columns->text(0));
  FORESHARD_TRY(row);
  for (const Table& table : tables())
    for (const Column& column : table.columns)
      if (const std::string name = fmt::format("{}.{}", table.name, column.name);
          version >= table.since && !names.contains(name))
        return fail(ErrorKind::input, "the store has no column " + name, connection.path(), "write the store again");
  return {};
}

/// Tables that stores of this version have not yet, as empty ones, for this connection.
Result<void> add_later_tables(Connection& connection, std::int64_t version) {
  std::string later;
  for (const Table& table : tables()) {
    if (table.since <= version) continue;
    later += fmt::format("CREATE TEMP VIEW {} AS SELECT NULL AS id", table.name);
    for (const Column& column : table.columns) later += fmt::format(", NULL AS {}", column.name);
    later += " WHERE 0;\n";
  }
  if (later.empty()) return {};
  FORESHARD_TRY(connection.execute("PRAGMA temp_store = MEMORY"));
  return connection.execute(later);
}

Result<void> check_complete(Connection& connection) {
  const Result<std::int64_t> complete = connection.integer("SELECT count(*) = 1 AND max(complete) = 1 FROM run");
  FORESHARD_TRY(complete);
  if (*complete != 1)
    return fail(ErrorKind::input, "the store has no completion mark: its writing was cut short", connection.path(),
                "write the store again");
  return {};
}

/// Puts our views over those of a store that another foreshard wrote, for this connection.
Result<void> take_our_views(Connection& connection) {
  Result<Statement> stored = connection.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'view'");
  FORESHARD_TRY(stored);
  std::map<std::string, std::string, std::less<>> statements;
  Result<bool> row = stored->step();
  for (; row && *row; row = stored->step()) statements.emplace(stored->text(0), stored->text(1));
  FORESHARD_TRY(row);
  const bool same = std::all_of(views().begin(), views().end(), [&](const View& view) {
    const auto found = statements.find(view.name);
    return found != statements.end() && found->second == fmt::format("CREATE VIEW {} AS\n{}", view.name, view.select);
  });
  if (same) return {};
  std::string ours;  // all of them: one that is the same may be made of one that is not
  for (const View& view : views()) ours += fmt::format("CREATE TEMP VIEW {} AS\n{};\n", view.name, view.select);
  FORESHARD_TRY(connection.execute("PRAGMA temp_store = MEMORY"));
  return connection.execute(ours);
}

Result<void> check_unchanged(const std::string& path, std::int64_t version, OpenOptions options) {
  if (options.unverified) return {};
  FORESHARD_TRY(check_beside(path));
  return version < kSealedSchemaVersion ? Result<void>() : check_seal(path);
}

}  // namespace

bool starts_as_store(std::string_view first_bytes) {
  return first_bytes.starts_with(kSqliteMagic.substr(0, 15));
}

bool is_store(const std::string& path) {
  ReadFile file(path, FileKind::regular);
  std::array<char, kSqliteMagic.size()> head{};
  return starts_as_store({head.data(), file.read(head).value_or(0)});
}

Result<Connection> open_store(const std::string& path, OpenOptions options) {
  FORESHARD_TRY(check_header(path));
  Result<Connection> connection = Connection::open(path, OpenMode::read);
  if (!connection) return connection;
  const Result<std::int64_t> version = check_identity(*connection);
  FORESHARD_TRY(version);
  const Result<void> checked = check_unchanged(path, *version, options)
                                   .and_then([&] { return check_tables(*connection, *version); })
                                   .and_then([&] { return add_later_tables(*connection, *version); })
                                   .and_then([&] { return check_complete(*connection); })
                                   .and_then([&] { return take_our_views(*connection); });
  FORESHARD_TRY(checked);
  return connection;
}

}  // namespace foreshard::traces
