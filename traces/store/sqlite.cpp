#include "traces/store/sqlite.hpp"

#include <fmt/core.h>

#include <utility>

#include "core/base/out_of_memory.hpp"

namespace foreshard::traces {
namespace {

/// The start of a statement on one line, for a message.
std::string excerpt(std::string_view sql) {
  constexpr std::size_t kLength = 80;
  std::string out;
  for (const char c : sql) {
    const bool space = c == '\n' || c == '\t' || c == ' ';
    if (space && (out.empty() || out.back() == ' ')) continue;
    out += space ? ' ' : c;
    if (out.size() >= kLength) return out + "…";
  }
  return out;
}

/// file:PATH with what a URI reserves written as %XX, opened as a file that nobody changes.
std::string immutable_uri(const std::string& path) {
  std::string out = "file:";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '?' || c == '#' || c == '%' || byte < 0x20) {
      out += fmt::format("%{:02X}", byte);
    } else {
      out += c;
    }
  }
  return out + "?immutable=1";
}

std::string hint_of(int code) {
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
      return "the file is cut short or damaged; write it again";
    case SQLITE_NOTADB:
      return "the file is not a SQLite database";
    case SQLITE_FULL:
      return "the disk is full, or a size limit was reached";
    case SQLITE_CANTOPEN:
      return "check that the file exists and can be read";
    default:
      return {};
  }
}

}  // namespace

Error sqlite_error(sqlite3* connection, int code, const std::string& path, std::string_view sql) {
  if ((code & 0xff) == SQLITE_NOMEM) out_of_memory();
  const char* message = connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
  Error error;
  error.what = sql.empty() ? std::string(message) : fmt::format("{} (in: {})", message, excerpt(sql));
  error.where = path;
  error.hint = hint_of(code);
  return error;
}

void Statement::bind(int at, std::string_view value) {
  // An empty view may have no address, which SQLite would bind as NULL.
  const char* text = value.data() != nullptr ? value.data() : "";
  keep(sqlite3_bind_text64(statement_.get(), at, text, value.size(), SQLITE_STATIC, SQLITE_UTF8));
}

Result<bool> Statement::step() {
  sqlite3* connection = sqlite3_db_handle(statement_.get());
  const char* sql = sqlite3_sql(statement_.get());
  // By its code: a later bind that worked has replaced the connection's message.
  if (const int bound = std::exchange(bound_, SQLITE_OK); bound != SQLITE_OK)
    return tl::unexpected(sqlite_error(nullptr, bound, path_, sql));
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return tl::unexpected(sqlite_error(connection, code, path_, sql));
}

Result<void> Statement::run() {
  const Result<bool> stepped = step();
  sqlite3_reset(statement_.get());
  FORESHARD_TRY(stepped);
  return {};
}

std::string_view Statement::text(int at) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), at);
  const int size = sqlite3_column_bytes(statement_.get(), at);
  return bytes == nullptr ? std::string_view() : std::string_view(static_cast<const char*>(bytes), size);
}

Result<Connection> Connection::open(const std::string& path, OpenMode mode) {
  Connection out;
  out.path_ = path;
  const bool create = mode == OpenMode::create;
  const int flags = SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2((create ? path : immutable_uri(path)).c_str(), &raw, flags, nullptr);
  out.connection_.reset(raw);
  if (code != SQLITE_OK) return tl::unexpected(sqlite_error(raw, code, path, {}));
  sqlite3_extended_result_codes(raw, 1);
  // What the file's own schema says is not trusted to call functions with side effects.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0, nullptr);
  // It forbids journal_mode=OFF, without which a writer leaves a journal where it is killed.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, create ? 0 : 1, nullptr);
  return out;
}

Result<void> Connection::execute(const std::string& sql) {
  const int code = sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return tl::unexpected(sqlite_error(connection_.get(), code, path_, sql));
  return {};
}

Result<Statement> Connection::prepare(std::string_view sql) {
  // SQLite would take what stands before a NUL for all there is.
  if (sql.find('\0') != std::string_view::npos) return fail(ErrorKind::usage, "the SQL holds a NUL byte", path_);
  sqlite3_stmt* raw = nullptr;
  const char* tail = nullptr;
  const int code = sqlite3_prepare_v2(connection_.get(), sql.data(), static_cast<int>(sql.size()), &raw, &tail);
  Statement out;
  out.statement_.reset(raw);
  out.path_ = path_;
  if (code != SQLITE_OK) return tl::unexpected(sqlite_error(connection_.get(), code, path_, sql));
  if (raw == nullptr) return fail(ErrorKind::usage, "the SQL is empty", path_);
  const std::string_view rest = sql.substr(static_cast<std::size_t>(tail - sql.data()));
  sqlite3_stmt* second = nullptr;
  const int code_of_rest =
      sqlite3_prepare_v2(connection_.get(), rest.data(), static_cast<int>(rest.size()), &second, nullptr);
  const bool empty = code_of_rest == SQLITE_OK && second == nullptr;
  sqlite3_finalize(second);
  if (!empty)
    return fail(ErrorKind::usage, fmt::format("more than one statement: {}", excerpt(rest)), path_, "give one SELECT");
  return out;
}

Result<std::int64_t> Connection::integer(std::string_view sql) {
  Result<Statement> statement = prepare(sql);
  FORESHARD_TRY(statement);
  const Result<bool> row = statement->step();
  FORESHARD_TRY(row);
  return *row ? statement->integer(0) : 0;
}

Result<void> Connection::close() {
  const int code = sqlite3_close(connection_.get());
  if (code != SQLITE_OK) return tl::unexpected(sqlite_error(connection_.get(), code, path_, {}));
  connection_.release();
  return {};
}

}  // namespace foreshard::traces
