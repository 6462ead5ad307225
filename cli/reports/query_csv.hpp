// Rows of a query as comma-separated values (RFC 4180 with a line feed at a line's end). Used by `query --csv` and
// `export --format csv`.
#pragma once

#include <string>
#include <vector>

#include "traces/store/query.hpp"

namespace foreshard::cli {

/// Column names on one line.
[[nodiscard]] std::string csv_header(const std::vector<std::string>& columns);
/// A row on one line; NULL is an empty field.
[[nodiscard]] std::string csv_row(const std::vector<traces::QueryValue>& row);
/// A value as text; NULL is empty.
[[nodiscard]] std::string value_text(const traces::QueryValue& value);

}  // namespace foreshard::cli
