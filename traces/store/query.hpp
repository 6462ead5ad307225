// One SQL question to a run store: `foreshard query RUN SQL`.
// Read-only: whatever the SQL, neither this file nor any other is changed or opened beside it.
#pragma once

#include <cstdint>
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
};

/// Runs one SELECT (or EXPLAIN, or a PRAGMA that only describes) on the store at `path`. Errors: those of
/// read_run for the file; usage for SQL that is wrong, more than one statement, or not a question.
[[nodiscard]] Result<QueryResult> query(const std::string& path, std::string_view sql);

}  // namespace foreshard::traces
