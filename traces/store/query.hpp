// One SQL question to a run store: `foreshard query RUN SQL`.
// Read-only: whatever the SQL, neither this file nor any other is changed or opened beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/error.hpp"

namespace foreshard::traces {

/// NULL, an integer, a real number, or text (a blob comes as text of its bytes).
using QueryValue = std::variant<std::monostate, std::int64_t, double, std::string>;

struct QueryResult {
  std::vector<std::string> columns;
  std::vector<std::vector<QueryValue>> rows;  ///< each as long as `columns`
  bool truncated = false;                     ///< there were more than QueryLimits allows
};

/// For questions of strangers: how much of an answer is kept, and when to give up.
struct QueryLimits {
  std::size_t rows = std::numeric_limits<std::size_t>::max();
  std::size_t bytes = std::numeric_limits<std::size_t>::max();  ///< of all values; also of any one on the way to them
  std::function<bool()> stop = {};  ///< asked every few thousand steps of SQLite's machine; true: give up
};

/// Runs one SELECT (or EXPLAIN, or a PRAGMA that only describes) on the store at `path`. Errors: those of
/// read_run for the file; usage for SQL that is wrong, more than one statement, or not a question, and for one that
/// `limits.stop` ended.
[[nodiscard]] Result<QueryResult> query(const std::string& path, std::string_view sql, const QueryLimits& limits = {});

}  // namespace foreshard::traces
