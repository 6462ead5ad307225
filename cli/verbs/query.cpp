// `foreshard query RUN SQL`: the store, by SQL.

#include "traces/store/query.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/options/option_set.hpp"
#include "cli/reports/query_csv.hpp"
#include "cli/terminal/output.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/json_io.hpp"

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

/// Writes the rows as they come: an answer may be longer than memory. A writer of a format is made with the names of
/// the columns; `row` writes one row and `end` what comes after the last.
class CsvWriter {
 public:
  explicit CsvWriter(std::ostream& out) : out_(out) {}
  void columns(const std::vector<std::string>& names) { out_ << csv_header(names); }
  void row(const std::vector<traces::QueryValue>& values) { out_ << csv_row(values); }
  void end() {}

 private:
  std::ostream& out_;
};

/// The text of print_json().
class JsonWriter {
 public:
  explicit JsonWriter(std::ostream& out) : out_(out) {}
  void columns(const std::vector<std::string>& names) {
    Json json = json_result("query");
    json["columns"] = names;
    std::string text = json_text(json, 2);
    text.resize(text.rfind('\n'));  // without the brace at the end
    out_ << text << ",\n  \"rows\": [";
  }
  void row(const std::vector<traces::QueryValue>& values) {
    Json cells = Json::array();
    std::transform(values.begin(), values.end(), std::back_inserter(cells), value_json);
    out_ << (any_ ? ",\n    " : "\n    ");
    for (const char c : json_text(cells, 2)) (c == '\n' ? out_ << "\n    " : out_ << c);
    any_ = true;
  }
  void end() { out_ << (any_ ? "\n  ]\n}\n" : "]\n}\n"); }

 private:
  std::ostream& out_;
  bool any_ = false;
};

/// Columns are as wide as in the first rows, a page of them or of an answer that is shorter; numbers to the right where
/// those have nothing else.
class TableWriter {
 public:
  explicit TableWriter(std::ostream& out) : out_(out) {}
  void columns(const std::vector<std::string>& names) { names_ = names; }
  void row(const std::vector<traces::QueryValue>& values) {
    if (table_) return add(values);
    first_.push_back(values);
    if (first_.size() >= kPage) print_first();
  }
  void end() {
    if (!table_) print_first();
    table_->print_more(out_);
  }

 private:
  static constexpr std::size_t kPage = 1000;

  void add(const std::vector<traces::QueryValue>& values) {
    std::vector<std::string> cells;
    std::transform(values.begin(), values.end(), std::back_inserter(cells), value_text);
    table_->row(std::move(cells));
    if (table_->rows() >= kPage) table_->print_more(out_);
  }
  void print_first() {
    std::vector<Table::Column> columns;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const bool text = std::any_of(first_.begin(), first_.end(),
                                    [&](const auto& row) { return std::holds_alternative<std::string>(row[i]); });
      columns.push_back({names_[i], text ? Table::Align::left : Table::Align::right});
    }
    table_.emplace(std::move(columns));
    for (const auto& row : std::exchange(first_, {})) add(row);
  }

  std::ostream& out_;
  std::vector<std::string> names_;
  std::vector<std::vector<traces::QueryValue>> first_;
  std::optional<Table> table_;
};

template <class Writer>
Result<int> write_answer(const QueryOptions& options, const std::string& sql, Console& console) {
  std::ostream& out = console.out;
  Writer writer(out);
  const traces::RowSink sink{[&](const std::vector<std::string>& names) { writer.columns(names); },
                             [&](const std::vector<traces::QueryValue>& values) {
                               writer.row(values);
                               return out.good();  // nobody reads on, or the disk is full
                             }};
  FORESHARD_TRY(traces::query_rows(options.run, sql, {}, sink, {console.unverified}));
  writer.end();
  return kDone;
}

Result<int> query(const QueryOptions& options, Console& console) {
  std::string sql = options.sql;
  if (sql == "-") sql.assign(std::istreambuf_iterator<char>(std::cin), {});
  if (options.csv) return write_answer<CsvWriter>(options, sql, console);
  if (options.json) return write_answer<JsonWriter>(options, sql, console);
  return write_answer<TableWriter>(options, sql, console);
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
