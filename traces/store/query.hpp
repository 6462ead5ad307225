// One SQL question to a run store: `foreshard query RUN SQL`.
// Read-only: whatever the SQL, neither this file nor any other is changed or opened beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/error.hpp"
#include "traces/store/open_options.hpp"

namespace foreshard::traces {

/// NULL, an integer, a real number, or text (a blob comes as text of its bytes).
using QueryValue = std::variant<std::monostate, std::int64_t, double, std::string>;

struct QueryResult {
  std::vector<std::string> columns;
  std::vector<std::vector<QueryValue>> rows;  ///< each as long as `columns`
  bool truncated = false;                     ///< there were more than QueryLimits allows
};

/// For questions of strangers: how much of an answer is kept, and when to give up. SQLite asks `stop` between the steps
/// of its machine and not within a function's call, which may take minutes: who must answer for time or memory asks in
/// a process of its own (viz/serve/questioner.hpp).
struct QueryLimits {
  std::size_t rows = std::numeric_limits<std::size_t>::max();
  std::size_t bytes = std::numeric_limits<std::size_t>::max();  ///< of all values; also of any one on the way to them
  std::int64_t heap = 0;            ///< bytes that SQLite may take in the whole process, from now on; 0: any
  std::function<bool()> stop = {};  ///< asked every few thousand steps of SQLite's machine; true: give up
};

/// Takes an answer as it comes, so that one of any length needs the memory of a row.
struct RowSink {
  std::function<void(const std::vector<std::string>& names)> columns;  ///< once, before the rows
  std::function<bool(const std::vector<QueryValue>& values)> row;      ///< false: no more are wanted
};

/// A store that is asked several questions: it is opened, and its checksum looked at, once.
class OpenedStore {
 public:
  [[nodiscard]] static Result<OpenedStore> open(const std::string& path, OpenOptions options = {});
  OpenedStore(OpenedStore&&) noexcept;
  OpenedStore& operator=(OpenedStore&&) = delete;
  ~OpenedStore();

  /// As query_rows().
  [[nodiscard]] Result<bool> rows(std::string_view sql, const QueryLimits& limits, const RowSink& sink);

 private:
  struct State;
  explicit OpenedStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Runs one SELECT (or EXPLAIN, or a PRAGMA that only describes) on the store at `path`; true where there were more
/// rows than `limits` or the sink let through, which are whole up to there. Functions are those of an allow list.
/// Errors: those of read_run for the file; usage for SQL that is wrong, more than one statement, or not a question, and
/// for one that `limits.stop` ended.
[[nodiscard]] Result<bool> query_rows(const std::string& path, std::string_view sql, const QueryLimits& limits,
                                      const RowSink& sink, OpenOptions options = {});

/// The same with all rows in memory.
[[nodiscard]] Result<QueryResult> query(const std::string& path, std::string_view sql, const QueryLimits& limits = {},
                                        OpenOptions options = {});

}  // namespace foreshard::traces
