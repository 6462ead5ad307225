// The store's schema: the one place where its tables, columns and views are named.
//
// The CREATE statements and docs/trace_schema.md are generated from here; rows.hpp, which carries the
// records of core/run to and from the rows, is checked against it by a test. Constant data, thread-safe.
//
// Changing a table or the meaning of its column means raising kSchemaVersion. A view does not: what foreshard reads, it
// reads by its own views, whatever the store was written with (open_store).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace foreshard::traces {

/// PRAGMA user_version of a store as it is written.
inline constexpr std::int32_t kSchemaVersion = 5;
/// A store of this version or a later one ends with a checksum of its contents (seal.hpp).
inline constexpr std::int32_t kSealedSchemaVersion = 4;
/// What a reader takes: from this version to kSchemaVersion.
inline constexpr std::int32_t kOldestSchemaVersion = 3;
/// PRAGMA application_id of a store: "fshd" in ASCII.
inline constexpr std::int32_t kApplicationId = 0x66736864;
/// Bytes of a database page; fixed so that equal runs give equal bytes.
inline constexpr int kPageSize = 4096;

enum class ColumnType : std::uint8_t { integer = 0, real = 1, text = 2 };

struct Column {
  std::string_view name;
  ColumnType type;
  bool nullable;
  std::string_view doc;  ///< one sentence, with the unit
};

/// Every table has, before these columns, `id INTEGER PRIMARY KEY`: the record's place in its list, from 0.
struct Table {
  std::string_view name;
  std::string_view doc;
  std::span<const Column> columns;
  std::int32_t since = kOldestSchemaVersion;  ///< the first version whose stores have it
};

struct Index {
  std::string_view name;
  std::string_view table;
  std::string_view columns;
};

struct View {
  std::string_view name;
  std::string_view doc;
  std::span<const Column> columns;
  std::string_view select;  ///< the SELECT that the view stands for
};

/// In the order in which they are created and filled; `run`, which holds the completion mark, is last.
[[nodiscard]] std::span<const Table> tables();
[[nodiscard]] std::span<const Index> indexes();
/// In the order of their dependencies.
[[nodiscard]] std::span<const View> views();

/// The table of that name. A name that is not there is our own bug.
[[nodiscard]] const Table& table(std::string_view name);

/// "CREATE TABLE …;" and the like for everything above.
[[nodiscard]] std::string create_statements();
/// "INSERT INTO t VALUES(?,?,…)" with the id first.
[[nodiscard]] std::string insert_statement(const Table& table);
/// "SELECT id,a,b FROM t ORDER BY id".
[[nodiscard]] std::string select_statement(const Table& table);
/// The text of docs/trace_schema.md.
[[nodiscard]] std::string schema_document();

}  // namespace foreshard::traces
