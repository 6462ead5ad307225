#include "cli/reports/query_csv.hpp"

#include <fmt/core.h>

#include "cli/terminal/output.hpp"

namespace foreshard::cli {

std::string value_text(const traces::QueryValue& value) {
  struct Text {
    std::string operator()(std::monostate) const { return {}; }
    std::string operator()(std::int64_t integer) const { return std::to_string(integer); }
    std::string operator()(double real) const { return fmt::format("{}", real); }
    std::string operator()(const std::string& text) const { return text; }
  };
  return std::visit(Text{}, value);
}

std::string csv_header(const std::vector<std::string>& columns) {
  std::string out;
  for (std::size_t i = 0; i < columns.size(); ++i) out += (i == 0 ? "" : ",") + csv_field(columns[i]);
  return out + "\n";
}

std::string csv_row(const std::vector<traces::QueryValue>& row) {
  std::string out;
  for (std::size_t i = 0; i < row.size(); ++i) out += (i == 0 ? "" : ",") + csv_field(value_text(row[i]));
  return out + "\n";
}

}  // namespace foreshard::cli
