// What a search or a forecast left in a store is drawn from it; what is not whole is no picture.
#include "cli/reports/stored_pictures.hpp"

#include <nlohmann/json.hpp>

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::cli;

namespace {

viz::StepMemoryPicture steps() {
  viz::StepMemoryPicture p;
  p.title = "a model on h200";
  p.headline = "first retry at step 1";
  p.limit = 40 * kGiB;
  p.each = 2;
  p.steps = {{10 * kGiB, 8 * kGiB}, {12 * kGiB, 9 * kGiB}};
  p.marks = {{viz::StepMark::Kind::retry, 1, "step 1"}, {viz::StepMark::Kind::out_of_memory, 3, "step 3"}};
  return p;
}

Run with(std::string_view key, const std::string& json) {
  Run run;
  run.results[std::string(key)] = json;
  return run;
}

}  // namespace

TEST_CASE("memory over steps comes back from its store as it was drawn") {
  const auto back = stored_step_memory(with(kStepMemoryResult, step_memory_json(steps()).dump()));
  REQUIRE(back);
  CHECK(viz::draw_memory_over_steps(*back) == viz::draw_memory_over_steps(steps()));
}

TEST_CASE("the front of a stored search has the points that ran, by their places") {
  const auto point = [](const char* changes, const Json& step, const Json& reserved, bool fits, bool on_front) {
    return Json{
        {"changes", changes}, {"phrase", "a move"},      {"step_ms", step},     {"peak_reserved_bytes", reserved},
        {"takes_part", true}, {"leaves_headroom", fits}, {"on_front", on_front}};
  };
  const Json result{{"name", "m"},
                    {"machine", "h200"},
                    {"memory_capacity_bytes", 100U},
                    {"headroom_bytes", 30U},
                    {"best", {{"changes", "--accumulate 2"}}},
                    {"points",
                     {point("", 2.5, 60U, true, false), point("--offload", nullptr, nullptr, false, false),
                      point("--accumulate 2", 1.5, 50U, true, true), point("--batch 2", 1.0, 80U, false, false)}}};
  const std::string tune = result.dump();
  const auto front = stored_front(with(kTuneResult, tune));
  REQUIRE(front);
  CHECK(front->limit == 70);
  REQUIRE(front->points.size() == 3);
  CHECK(front->points[0].name == "as asked for");
  CHECK(front->points[1].number == 2);
  CHECK(front->points[1].name == "best");
  CHECK(front->points[1].kind == viz::FrontPoint::Kind::front);
  CHECK(front->points[2].kind == viz::FrontPoint::Kind::no_part);
  const Json pictures = pictures_json(with(kTuneResult, tune));
  REQUIRE(pictures.size() == 1);
  CHECK(pictures[0]["name"] == "front");
  CHECK(pictures[0]["light"] != pictures[0]["dark"]);
}

TEST_CASE("results that are not whole, or that nobody stored, are no pictures") {
  CHECK(pictures_json(Run{}).empty());
  for (const char* text :
       {"", "{", "[]", "null", "7", R"({"points":7})", R"({"points":[]})", R"({"points":[1,{}]})",
        R"({"reserved":[1],"allocated":[],"steps_each":1})", R"({"reserved":[1],"allocated":[1],"steps_each":0})",
        R"({"reserved":["1"],"allocated":[1],"steps_each":1})",
        R"({"reserved":[1],"allocated":[1],"steps_each":1,"marks":[{"kind":"x","step":0}]})"}) {
    INFO(text);
    CHECK_FALSE(stored_front(with(kTuneResult, text)));
    CHECK_FALSE(stored_step_memory(with(kStepMemoryResult, text)));
    CHECK(stored_front_runs(with(kFrontRunsResult, text)).empty());
  }
  const auto runs = stored_front_runs(with(kFrontRunsResult, R"([{"point":3,"run":"front/3.db"},{"point":-1}])"));
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].run == "front/3.db");
}

TEST_CASE("a page has each picture as wide as its column and once more for a telephone, without the headline") {
  const Json list = pictures_json(with(kStepMemoryResult, step_memory_json(steps()).dump()));
  REQUIRE(list.size() == 1);
  CHECK(list[0]["title"] == "first retry at step 1");
  for (const auto& [key, width] : {std::pair("light", "1000"), std::pair("dark", "1000"),
                                   std::pair("narrow_light", "420"), std::pair("narrow_dark", "420")}) {
    INFO(key);
    const std::string svg = list[0][key].get<std::string>();
    CHECK(svg.find(std::string("width=\"") + width + '"') != std::string::npos);
    CHECK(svg.find("first retry at step 1") == std::string::npos);
  }
}
