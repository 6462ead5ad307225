// A thin RAII over sqlite3: a connection, a prepared statement, and errors made for people.
//
// Private to traces/store. Not thread-safe: one connection belongs to one thread. No function throws; a
// failure carries the file, the start of the SQL, SQLite's message and, where there is one, a hint.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace foreshard::traces {

enum class OpenMode : std::uint8_t {
  create = 0,  ///< an existing empty file, to be filled; unsafe on purpose until it is renamed (atomic_file.hpp)
  read = 1,    ///< read-only, and taken to be immutable: no lock, no journal, nothing beside it is touched
};

class Statement {
 public:
  /// `at` counts parameters from 1, as SQLite does. Text is not copied: it must live until step(). A value that cannot
  /// be bound (a text beyond SQLite's limit, no such parameter) makes the next step() fail.
  void bind(int at, std::int64_t value) { keep(sqlite3_bind_int64(statement_.get(), at, value)); }
  void bind(int at, double value) { keep(sqlite3_bind_double(statement_.get(), at, value)); }
  void bind(int at, std::string_view value);
  void bind_null(int at) { keep(sqlite3_bind_null(statement_.get(), at)); }

  /// True when a row is there, false at the end. Errors: SQLite's, of the first bind() that failed or of the step.
  [[nodiscard]] Result<bool> step();
  /// Runs a statement that returns no rows and makes it ready to be bound again.
  [[nodiscard]] Result<void> run();

  /// Columns of the present row, counted from 0.
  [[nodiscard]] int column_count() const { return sqlite3_column_count(statement_.get()); }
  [[nodiscard]] std::string column_name(int at) const { return sqlite3_column_name(statement_.get(), at); }
  /// SQLITE_INTEGER, SQLITE_FLOAT, SQLITE_TEXT, SQLITE_BLOB or SQLITE_NULL.
  [[nodiscard]] int type(int at) const { return sqlite3_column_type(statement_.get(), at); }
  [[nodiscard]] std::int64_t integer(int at) const { return sqlite3_column_int64(statement_.get(), at); }
  [[nodiscard]] double real(int at) const { return sqlite3_column_double(statement_.get(), at); }
  /// Text or a blob's bytes; empty for NULL. Valid until the next step().
  [[nodiscard]] std::string_view text(int at) const;

  [[nodiscard]] sqlite3_stmt* handle() const { return statement_.get(); }

 private:
  friend class Connection;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  void keep(int code) {
    if (bound_ == SQLITE_OK) bound_ = code;
  }
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string path_;
  int bound_ = SQLITE_OK;  // the first failure of a bind since the last step
};

class Connection {
 public:
  [[nodiscard]] static Result<Connection> open(const std::string& path, OpenMode mode);

  /// Runs one or more statements that return nothing of interest.
  [[nodiscard]] Result<void> execute(const std::string& sql);
  /// Prepares exactly one statement; text behind it is a usage error, as is an empty one.
  [[nodiscard]] Result<Statement> prepare(std::string_view sql);
  /// The first column of the first row of a query that has one.
  [[nodiscard]] Result<std::int64_t> integer(std::string_view sql);
  /// Closes the file; later calls are not allowed. Errors of the last write show up here.
  [[nodiscard]] Result<void> close();

  [[nodiscard]] sqlite3* handle() const { return connection_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
  };
  std::unique_ptr<sqlite3, Close> connection_;
  std::string path_;
};

/// What SQLite says about its last failure on `connection`, as an Error. `sql` may be empty.
[[nodiscard]] Error sqlite_error(sqlite3* connection, int code, const std::string& path, std::string_view sql);

}  // namespace foreshard::traces
