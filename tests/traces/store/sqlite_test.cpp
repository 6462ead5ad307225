#include "traces/store/sqlite.hpp"

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/store/run_sample.hpp"

namespace foreshard::traces {
namespace {

TEST_CASE("a value that cannot be bound fails the step, and the next one is free of it", "[store]") {
  const std::string path = test::path_of("binds.db");
  ::foreshard::test::write_file(path, "");
  auto connection = Connection::open(path, OpenMode::create);
  REQUIRE(connection);
  REQUIRE(connection->execute("CREATE TABLE t (a INTEGER)"));
  auto insert = connection->prepare("INSERT INTO t VALUES (?)");
  REQUIRE(insert);
  insert->bind(2, std::int64_t{1});  // there is no second parameter
  insert->bind(1, std::int64_t{7});
  const auto failed = insert->run();
  REQUIRE(!failed);
  CHECK(failed.error().text().find("INSERT INTO t") != std::string::npos);
  CHECK(*connection->integer("SELECT count(*) FROM t") == 0);
  REQUIRE(insert->run());
  CHECK(*connection->integer("SELECT a FROM t") == 7);
}

}  // namespace
}  // namespace foreshard::traces
