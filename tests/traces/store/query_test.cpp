#include "traces/store/query.hpp"

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/store/run_sample.hpp"
#include "traces/store/store.hpp"

namespace foreshard::traces {
namespace {

std::string store() {
  const std::string path = test::path_of("query.db");
  REQUIRE(write_run(test::full_run(), path, {.force = true}));
  return path;
}

TEST_CASE("a query gives names and typed values", "[store]") {
  const auto result = query(store(), "SELECT id AS n, NULL AS missing, 0.5 AS half, name FROM unit WHERE id=1 -- why");
  INFO((result ? "" : result.error().text()));
  REQUIRE(result);
  CHECK(result->columns == std::vector<std::string>{"n", "missing", "half", "name"});
  REQUIRE(result->rows.size() == 1);
  CHECK(result->rows[0] == std::vector<QueryValue>{std::int64_t{1}, std::monostate(), 0.5, std::string("layers.0")});
}

TEST_CASE("questions of every kind are answered", "[store]") {
  const std::string path = store();
  for (const char* sql :
       {"SELECT count(*) FROM slices;",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 9) SELECT * FROM n",
        "SELECT sum(size) OVER (ORDER BY id) FROM allocator_event", "PRAGMA table_info(block)", "PRAGMA user_version",
        "EXPLAIN QUERY PLAN SELECT * FROM memory_timeline", "SELECT value ->> '$' FROM settings", "VALUES(1)",
        "SELECT name FROM pragma_table_info('block')", "SELECT name FROM sqlite_schema"}) {
    const auto result = query(path, sql);
    INFO(sql << "\n" << (result ? "" : result.error().text()));
    CHECK(result);
  }
}

TEST_CASE("a query cannot change or open anything", "[store]") {
  const std::string path = store();
  const std::string before = foreshard::test::file_bytes(path);
  const std::string other = test::path_of("attached.db");
  const std::string attach = "ATTACH '" + other + "' AS o";
  const std::string vacuum = "VACUUM INTO '" + other + "'";
  for (const std::string& sql :
       {std::string("DELETE FROM block"), std::string("DROP TABLE block"),
        std::string("INSERT INTO label VALUES(9,'x')"), std::string("CREATE TEMP TABLE t(x)"),
        std::string("PRAGMA user_version=2"), std::string("PRAGMA journal_mode=WAL"),
        std::string("PRAGMA writable_schema=1"), std::string("BEGIN IMMEDIATE"),
        std::string("SELECT load_extension('x')"), std::string("REINDEX"), std::string("ANALYZE"), attach, vacuum}) {
    const auto result = query(path, sql);
    INFO(sql);
    REQUIRE(!result);
    INFO(result.error().text());
    CHECK(result.error().kind == ErrorKind::usage);
    CHECK(result.error().what.find("a query can only read") != std::string::npos);
    CHECK(result.error().where == path);
  }
  CHECK(foreshard::test::file_bytes(path) == before);
  CHECK(foreshard::test::file_bytes(other).empty());
}

TEST_CASE("wrong SQL is answered with SQLite's words and the SQL", "[store]") {
  const std::string path = store();
  const auto unknown = query(path, "SELECT *\n  FROM blocks");
  REQUIRE(!unknown);
  CHECK(unknown.error().kind == ErrorKind::usage);
  CHECK(unknown.error().what == "no such table: blocks (in: SELECT * FROM blocks)");
  CHECK(unknown.error().hint.find("trace_schema.md") != std::string::npos);

  const auto late = query(path, "SELECT abs(-9223372036854775808) FROM run");  // SQLite says so when it makes the row
  REQUIRE(!late);
  CHECK(late.error().kind == ErrorKind::usage);

  const auto two = query(path, "SELECT 1; SELECT 2");
  REQUIRE(!two);
  CHECK(two.error().what == "more than one statement: SELECT 2");
  CHECK(!query(path, ""));
  CHECK(!query(path, "-- nothing"));
  CHECK(!query(path, std::string_view("SELECT 1\0; DELETE FROM block", 28)));
}

TEST_CASE("a stranger's query has limits: rows, bytes, time", "[store]") {
  const std::string path = store();
  const std::string numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) ";
  const auto rows = query(path, numbers + "SELECT i FROM n", {.rows = 7});
  REQUIRE(rows);
  CHECK(rows->rows.size() == 7);
  CHECK(rows->truncated);
  const auto bytes = query(path, numbers + "SELECT hex(zeroblob(1000)) FROM n", {.bytes = 10'000});
  REQUIRE(bytes);
  CHECK(bytes->rows.size() == 4);
  CHECK(bytes->truncated);
  CHECK_FALSE(query(path, "SELECT zeroblob(100000)", {.bytes = 10'000}));
  int asked = 0;
  const auto ended = query(path, numbers + "SELECT count(*) FROM n", {.stop = [&] { return ++asked > 100; }});
  REQUIRE_FALSE(ended);
  CHECK(ended.error().kind == ErrorKind::usage);
  CHECK(ended.error().what == "the query took too long and was ended");
  const auto all = query(path, "SELECT 1", {.rows = 1, .stop = [] { return false; }});
  REQUIRE(all);
  CHECK_FALSE(all->truncated);
}

TEST_CASE("a row is counted before it is copied", "[store]") {
  const auto wide = query(store(), "SELECT zeroblob(9000), zeroblob(9000)", {.bytes = 10'000});
  REQUIRE(wide);
  CHECK(wide->rows.empty());
  CHECK(wide->truncated);
}

TEST_CASE("functions are those of the allow list", "[store]") {
  const std::string path = store();
  for (const char* sql : {"SELECT fts3_tokenizer('simple')", "SELECT FTS3_Tokenizer('simple', x'4141414141414141')",
                          "SELECT load_extension('x')", "SELECT name FROM unit WHERE name MATCH 'x'"}) {
    const auto result = query(path, sql);
    INFO(sql);
    REQUIRE_FALSE(result);
    INFO(result.error().text());
    CHECK(result.error().kind == ErrorKind::usage);
  }
  CHECK(query(path, "SELECT fts3_tokenizer('simple')").error().what ==
        "a query can only read: the function fts3_tokenizer is refused");
  const auto known = query(path,
                           "SELECT Upper(name), count(*) OVER (), round(sqrt(4)), iif(1, 2, 3), date(0) FROM unit "
                           "WHERE name LIKE '%' AND name GLOB '*' ORDER BY length(name)");
  INFO((known ? "" : known.error().text()));
  CHECK(known);
}

TEST_CASE("rows come one by one, until no more are wanted", "[store]") {
  std::vector<std::string> names;
  std::int64_t last = 0;
  const RowSink sink{[&](const std::vector<std::string>& columns) { names = columns; },
                     [&](const std::vector<QueryValue>& values) {
                       last = std::get<std::int64_t>(values[0]);
                       return last < 100'000;
                     }};
  const auto more =
      query_rows(store(), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n", {}, sink);
  REQUIRE(more);
  CHECK(*more);
  CHECK(last == 100'000);
  CHECK(names == std::vector<std::string>{"i"});
}

}  // namespace
}  // namespace foreshard::traces
