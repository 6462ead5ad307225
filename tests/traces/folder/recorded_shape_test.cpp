#include "traces/folder/recorded_shape.hpp"

#include <string>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

std::string forward(const std::string& tensors, const std::string& backward = "true") {
  return R"({"tensors": [)" + tensors + R"(], "reduces": true, "backward": )" + backward + "}";
}

std::optional<StepShape> shape(const std::string& steps) {
  const auto read = parse_recorded_shape(R"({"recorded": {"inputs": [)" + steps + "]}}", "rank.json");
  REQUIRE(read);
  return *read;
}

const std::string kTokens = R"({"name": "0", "shape": [4, 1024], "dtype": "int64"})";

}  // namespace

TEST_CASE("a rank's batch and length are those of all forwards that it trained on") {
  CHECK(shape("[" + forward(kTokens) + "], [" + forward(kTokens) + "]") == StepShape{4, 1024});
  const std::string longer = R"({"name": "0", "shape": [4, 2048], "dtype": "int64"})";
  CHECK(shape("[" + forward(kTokens) + "], [" + forward(longer, "false") + "]") == StepShape{4, 1024});
  CHECK_FALSE(shape("[" + forward(kTokens) + "], [" + forward(longer) + "]"));  // its steps differ
  CHECK_FALSE(shape("[" + forward("") + "]"));
  CHECK_FALSE(shape(""));
}

TEST_CASE("token ids say them before other inputs do") {
  const std::string mask = R"({"name": "mask", "shape": [1, 7], "dtype": "int64"})";
  const std::string ids = R"({"name": "input_ids", "shape": [2, 512], "dtype": "int32"})";
  CHECK(shape("[" + forward(mask + "," + ids) + "]") == StepShape{2, 512});
  CHECK(shape("[" + forward(R"({"name": "0", "shape": [8, 3, 32], "dtype": "float32"})") + "]") == StepShape{8, 3});
  CHECK(shape("[" + forward(R"({"name": "0", "shape": [8, 32], "dtype": "float32"})") + "]") == StepShape{8, 1});
}

TEST_CASE("the rank.json beside the recording is read") {
  const test::TemporaryFolder folder;
  const std::string trace = folder.file("trace.json.gz");
  CHECK_FALSE(*recorded_shape(trace));
  CHECK_FALSE(*recorded_shape(""));
  (void)folder.write("rank.json", R"({"recorded": {"inputs": [[)" + forward(kTokens) + "]]}}");
  CHECK(*recorded_shape(trace) == StepShape{4, 1024});
  CHECK_FALSE(parse_recorded_shape("{", "rank.json"));
  for (const char* none : {"{}", "[]", R"({"recorded": 1})", R"({"recorded": {"inputs": [[{"tensors": [7]}], 3]}})"})
    CHECK_FALSE(*parse_recorded_shape(none, "rank.json"));
}
