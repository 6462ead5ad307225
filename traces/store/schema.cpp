#include "traces/store/schema.hpp"

#include <fmt/core.h>

#include <array>

#include "core/base/check.hpp"

namespace foreshard::traces {
namespace {

std::string_view type_name(ColumnType type) {
  constexpr std::array<std::string_view, 3> kNames{"INTEGER", "REAL", "TEXT"};
  return kNames[static_cast<std::size_t>(type)];
}

std::string create_table(const Table& table) {
  std::string out = fmt::format("CREATE TABLE {}(\n  id INTEGER PRIMARY KEY", table.name);
  for (const Column& column : table.columns)
    out += fmt::format(",\n  {} {}{}", column.name, type_name(column.type), column.nullable ? "" : " NOT NULL");
  return out + "\n) STRICT;\n";
}

void add_columns(std::string& out, std::span<const Column> columns) {
  for (const Column& column : columns)
    out += fmt::format("| `{}` | {}{} | {} |\n", column.name, type_name(column.type),
                       column.nullable ? ", may be NULL" : "", column.doc);
  out += "\n";
}

constexpr std::string_view kIntroduction =
    R"(A run store is one SQLite file that `foreshard` writes and reads: `plan`, `run` and `import` make one, `view`,
`explain`, `compare` and `export` read one, and `foreshard query RUN SQL` (or any SQLite client) answers questions to
it.

This page is generated from `traces/store/tables.cpp` and `traces/store/views.cpp`.

* Times are integers in nanoseconds, sizes in bytes. `ts`, `dur` and `name` mean what they mean in Perfetto.
* Every table has `id INTEGER PRIMARY KEY`: the row's place in its list, from 0, in the order in which things happened.
  A column named after a table (`unit`, `parameter`, `label`, `block`, `segment`) holds that table's `id`; `stream`
  holds `stream.stream`, and `step` a step's number.
* NULL means that a value is not known or does not apply.
* Integers are 64 bits. Addresses and handles are unsigned: those from 2^63 up show as negative numbers.
* A planned run has one clock. An import has two: allocator events, annotations and the steps of recording `snapshot`
  are on the first; host ops, device ops and the steps of recording `trace` on the second. Of a plan of a source
  without times there is none: `ts` and `dur` count allocator events.
* Times of a row do not decrease (`dur` is 0 or more), and allocator events follow each other; a store in which they do
  not is refused with its table and row, but by `query`.
* The last 64 bytes, behind SQLite's pages, are a checksum of all others. A store is refused where it does not fit, or
  where another SQLite client left a journal or a write-ahead log beside it; `--unverified` reads it as
  it is. Stores of schema version 3 have no checksum and are read unchecked.
* A query can only read, with the functions of SQLite that compute values from values; rows are written as they come.
)";

}  // namespace

const Table& table(std::string_view name) {
  for (const Table& candidate : tables())
    if (candidate.name == name) return candidate;
  FORESHARD_CHECK(false, fmt::format("the schema has no table {}", name));
}

std::string create_statements() {
  std::string out;
  for (const Table& table : tables()) out += create_table(table);
  for (const Index& index : indexes())
    out += fmt::format("CREATE INDEX {} ON {}({});\n", index.name, index.table, index.columns);
  for (const View& view : views()) out += fmt::format("CREATE VIEW {} AS\n{};\n", view.name, view.select);
  return out;
}

std::string insert_statement(const Table& table) {
  std::string out = fmt::format("INSERT INTO {} VALUES(?", table.name);
  for (std::size_t i = 0; i < table.columns.size(); ++i) out += ",?";
  return out + ")";
}

std::string select_statement(const Table& table) {
  std::string out = "SELECT id";
  for (const Column& column : table.columns) out += fmt::format(",\"{}\"", column.name);
  return out + fmt::format(" FROM \"{}\" ORDER BY id", table.name);
}

std::string schema_document() {
  std::string out = "# The run store\n\n" + std::string(kIntroduction);
  out += fmt::format("\nSchema version (`PRAGMA user_version`): {}. `PRAGMA application_id`: {} (0x{:x}).\n",
                     kSchemaVersion, kApplicationId, kApplicationId);
  out += "\n## Tables\n\n";
  for (const Table& table : tables()) {
    out += fmt::format("### {}\n\n{}\n\n| column | type | meaning |\n|---|---|---|\n", table.name, table.doc);
    add_columns(out, table.columns);
  }
  out += "## Views\n\n";
  for (const View& view : views()) {
    out += fmt::format("### {}\n\n{}\n\n| column | type | meaning |\n|---|---|---|\n", view.name, view.doc);
    add_columns(out, view.columns);
  }
  out.pop_back();
  return out;
}

}  // namespace foreshard::traces
