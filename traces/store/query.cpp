#include "traces/store/query.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>

#include "traces/store/open.hpp"

namespace foreshard::traces {
namespace {

// Pragmas that describe the database and, without a value, change nothing (sqlite.org/pragma.html).
constexpr std::array<std::string_view, 8> kDescribing{"table_info", "table_xinfo", "table_list",  "index_list",
                                                      "index_info", "index_xinfo", "quick_check", "integrity_check"};
constexpr std::array<std::string_view, 4> kReadable{"application_id", "user_version", "page_count", "page_size"};

bool contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string_view text(const char* raw) {
  return raw == nullptr ? std::string_view() : std::string_view(raw);
}

/// What SQL may do, asked by SQLite while it compiles. `refused` gets the first thing that it may not.
int authorize(void* refused, int action, const char* first, const char* second, const char*, const char*) {
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    case SQLITE_FUNCTION:
      if (text(second) != "load_extension") return SQLITE_OK;
      break;
    case SQLITE_PRAGMA:
      if (contains(kDescribing, text(first))) return SQLITE_OK;
      if (contains(kReadable, text(first)) && second == nullptr) return SQLITE_OK;
      break;
    default:
      break;
  }
  auto& what = *static_cast<std::string*>(refused);
  if (what.empty()) {
    const bool attach = action == SQLITE_ATTACH || action == SQLITE_DETACH;
    what = action == SQLITE_PRAGMA     ? fmt::format("PRAGMA {}", text(first))
           : attach                    ? "ATTACH and DETACH"
           : action == SQLITE_FUNCTION ? fmt::format("the function {}", text(second))
                                       : "a statement that changes something";
  }
  return SQLITE_DENY;
}

constexpr int kStepsBetweenAsking = 4'000;  // of SQLite's virtual machine: well below a millisecond

void limit(sqlite3* connection, const QueryLimits& limits) {
  if (limits.bytes < static_cast<std::size_t>(sqlite3_limit(connection, SQLITE_LIMIT_LENGTH, -1)))
    sqlite3_limit(connection, SQLITE_LIMIT_LENGTH, static_cast<int>(limits.bytes));
  if (!limits.stop) return;
  const auto ask = [](void* stop) { return (*static_cast<const std::function<bool()>*>(stop))() ? 1 : 0; };
  sqlite3_progress_handler(connection, kStepsBetweenAsking, ask, const_cast<std::function<bool()>*>(&limits.stop));
}

std::size_t size_of(const std::vector<QueryValue>& row) {
  std::size_t out = 0;
  for (const QueryValue& value : row) {
    const auto* text = std::get_if<std::string>(&value);
    out += sizeof value + (text == nullptr ? 0 : text->size());
  }
  return out;
}

QueryValue value(const Statement& statement, int at) {
  switch (statement.type(at)) {
    case SQLITE_INTEGER:
      return statement.integer(at);
    case SQLITE_FLOAT:
      return statement.real(at);
    case SQLITE_NULL:
      return std::monostate();
    default:
      return std::string(statement.text(at));
  }
}

}  // namespace

Result<QueryResult> query(const std::string& path, std::string_view sql, const QueryLimits& limits) {
  Result<Connection> connection = open_store(path);
  FORESHARD_TRY(connection);
  std::string refused;
  sqlite3_set_authorizer(connection->handle(), &authorize, &refused);
  sqlite3_limit(connection->handle(), SQLITE_LIMIT_ATTACHED, 0);
  limit(connection->handle(), limits);
  Result<Statement> statement = connection->prepare(sql);
  // VACUUM asks the authorizer only once it runs.
  if (refused.empty() && statement && sqlite3_stmt_readonly(statement->handle()) == 0)
    refused = "a statement that changes something";
  if (!refused.empty())
    return fail(ErrorKind::usage, fmt::format("a query can only read: {} is refused", refused), path,
                "give a SELECT; docs/trace_schema.md lists the tables and views");
  if (!statement) {
    Error error = statement.error();
    error.kind = ErrorKind::usage;
    if (error.hint.empty()) error.hint = "docs/trace_schema.md lists the tables and views";
    return tl::unexpected(error);
  }
  QueryResult out;
  for (int i = 0; i < statement->column_count(); ++i) out.columns.push_back(statement->column_name(i));
  std::size_t bytes = 0;
  for (;;) {
    const Result<bool> row = statement->step();
    if (!row && limits.stop && limits.stop())
      return fail(ErrorKind::usage, "the query took too long and was ended", path,
                  "narrow the query, or use foreshard query");
    FORESHARD_TRY(row);
    if (!*row) return out;
    if (out.rows.size() >= limits.rows || bytes >= limits.bytes) {
      out.truncated = true;
      return out;
    }
    std::vector<QueryValue>& values = out.rows.emplace_back();
    for (int i = 0; i < statement->column_count(); ++i) values.push_back(value(*statement, i));
    bytes += size_of(values);
  }
}

}  // namespace foreshard::traces
