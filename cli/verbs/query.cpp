// `foreshard query RUN SQL`: the store, by SQL.

#include "traces/store/query.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/option_set.hpp"
#include "cli/reports/query_csv.hpp"
#include "cli/terminal/output.hpp"
#include "cli/verbs/verbs.hpp"

namespace foreshard::cli {
namespace {

struct QueryOptions {
  std::string run;
  std::string sql;
  bool json = false;
  bool csv = false;
};

Json value_json(const traces::QueryValue& value) {
  struct ToJson {
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(std::int64_t integer) const { return integer; }
    Json operator()(double real) const { return real; }
    Json operator()(const std::string& text) const { return text; }
  };
  return std::visit(ToJson{}, value);
}

/// A column of nothing but numbers stands to the right.
Table::Align alignment(const traces::QueryResult& result, std::size_t column) {
  const bool text = std::any_of(result.rows.begin(), result.rows.end(),
                                [&](const auto& row) { return std::holds_alternative<std::string>(row[column]); });
  return text ? Table::Align::left : Table::Align::right;
}

void print_table(std::ostream& out, const traces::QueryResult& result) {
  std::vector<Table::Column> columns;
  for (std::size_t i = 0; i < result.columns.size(); ++i) columns.push_back({result.columns[i], alignment(result, i)});
  Table table(std::move(columns));
  for (const auto& row : result.rows) {
    std::vector<std::string> cells;
    std::transform(row.begin(), row.end(), std::back_inserter(cells), value_text);
    table.row(std::move(cells));
  }
  table.print(out);
}

Result<int> query(const QueryOptions& options, Console& console) {
  std::string sql = options.sql;
  if (sql == "-") sql.assign(std::istreambuf_iterator<char>(std::cin), {});
  const auto result = traces::query(options.run, sql);
  FORESHARD_TRY(result);
  if (options.csv) {
    console.out << csv_header(*result) << csv_rows(*result);
  } else if (options.json) {
    Json json = json_result("query");
    json["columns"] = result->columns;
    json["rows"] = Json::array();
    for (const auto& row : result->rows) {
      Json cells = Json::array();
      std::transform(row.begin(), row.end(), std::back_inserter(cells), value_json);
      json["rows"].push_back(std::move(cells));
    }
    print_json(console.out, json);
  } else {
    print_table(console.out, *result);
  }
  return kDone;
}

}  // namespace

Action add_query(OptionSet& set) {
  auto options = std::make_shared<QueryOptions>();
  set.add_option("run", options->run, "a run store").required().type_name("RUN");
  set.add_option("sql", options->sql, "one SELECT; - reads it from standard input").required().type_name("SQL");
  const Option json = set.add_flag("--json", options->json, "columns and rows as JSON");
  set.add_flag("--csv", options->csv, "comma-separated values").excludes(json);
  return [options](Console& console) { return query(*options, console); };
}

}  // namespace foreshard::cli
