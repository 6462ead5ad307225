#include "traces/folder/recorder_problems.hpp"

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard;
using namespace foreshard::traces;

TEST_CASE("the recorder's problems are those of the rank.json beside the recording") {
  const test::TemporaryFolder folder;
  const std::string snapshot = folder.file("snapshot.pickle.gz");
  CHECK(recorder_problems(snapshot)->empty());
  CHECK(recorder_problems("")->empty());
  (void)folder.write("rank.json", R"({"schema": 1, "problems": ["2 root FSDP2 modules", 7, "no trace"]})");
  CHECK(*recorder_problems(snapshot) == std::vector<std::string>{"2 root FSDP2 modules", "no trace"});
  for (const char* none : {"{}", "[]", R"({"problems": "one"})", R"({"problems": null})"})
    CHECK(parse_recorder_problems(none, "rank.json")->empty());
  const auto broken = parse_recorder_problems("{", "rank.json");
  REQUIRE_FALSE(broken);
  CHECK(broken.error().where.find("rank.json") != std::string::npos);
}
