#include "core/base/strict_json.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"

using namespace foreshard;

namespace {

Error refused(const std::string& text, std::string_view hint = "a shopping list is wanted") {
  const auto json = parse_strict_json(text, "list.json", hint);
  REQUIRE_FALSE(json);
  CHECK(json.error().kind == ErrorKind::input);
  CHECK(parse_strict_ordered_json(text, "list.json", hint).error().text() == json.error().text());
  return json.error();
}

std::string nested(int depth) {
  const auto times = static_cast<std::size_t>(depth);
  return std::string(times, '[') + std::string(times, ']');
}

}  // namespace

TEST_CASE("strict JSON: values as they stand, keys in the document's order or sorted") {
  CHECK(parse_strict_json(R"({"b": 1, "a": [true, null, "x"]})", "f")->dump() == R"({"a":[true,null,"x"],"b":1})");
  CHECK(parse_strict_ordered_json(R"({"b": 1, "a": 2.5})", "f")->dump() == R"({"b":1,"a":2.5})");
}

TEST_CASE("strict JSON: what is none has its line, its column and what is wanted") {
  const Error error = refused("{\n \"milk\" 2}");
  CHECK(error.where == "list.json, line 2, column 9");
  CHECK(error.what.starts_with("this is not valid JSON: "));
  CHECK(error.hint == "a shopping list is wanted");
  CHECK(refused("").what == "this is not valid JSON: it is empty");
  CHECK(refused("{\"milk\": ").what == "this is not valid JSON: it is cut short");
  CHECK(refused("{\"milk\": ").where == "list.json, line 1, column 10");
  CHECK(refused("{\"milk\": ").hint == "copy the file again, or write it again");
  CHECK(refused("\x80\x04]").where == "list.json, line 1, column 1");
  CHECK(refused("\"" + std::string(100000, 'x') + "\n\"").what.size() < 400);
}

TEST_CASE("strict JSON: a key twice in one object is refused where it stands the second time") {
  const Error error = refused("{\"milk\": 1,\n \"shop\": {\"milk\": 2, \"a\\\"b\": 3,\n  \"a\\\"b\": 4}}");
  CHECK(error.what == "the key 'a\"b' occurs twice in one object");
  CHECK(error.where == "list.json, line 3, column 3");
  CHECK(error.hint == "keep one of them");
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) many += '"' + std::to_string(i) + "\": 0, ";
  CHECK(refused(many + "\"999\": 1}").what == "the key '999' occurs twice in one object");
}

TEST_CASE("strict JSON: nesting and numbers have their limits") {
  CHECK(parse_strict_json(nested(kDeepestJson), "f"));
  CHECK(refused(nested(kDeepestJson + 2)).what == "this JSON is nested deeper than 64");
  CHECK(refused(nested(kDeepestJson + 2)).where == "list.json, line 1, column 66");
  CHECK(refused(nested(100000)).hint == "is it the right file?");
  CHECK_FALSE(refused(std::string(100000, '[')).what.empty());
  const Error number = refused("{\"milk\": 1e400}");
  CHECK(number.what == "this JSON cannot be read: number overflow parsing '1e400'");
  CHECK(number.where.starts_with("list.json, line 1, column "));
}

TEST_CASE("strict JSON: an unknown key comes with the nearest known one") {
  static constexpr std::array<std::string_view, 2> kKnown{"milk", "bread"};
  const auto json = *parse_strict_json(R"({"bread": 1, "mlik": 2})", "f");
  const auto unknown = unknown_key(json, kKnown);
  REQUIRE(unknown);
  CHECK(unknown->key == "mlik");
  CHECK(unknown->what == "unknown key 'mlik'");
  CHECK(unknown->hint == "did you mean 'milk'?");
  CHECK_FALSE(unknown_key(*parse_strict_json(R"({"bread": 1})", "f"), kKnown));
  CHECK_FALSE(unknown_key(*parse_strict_ordered_json("[1]", "f"), kKnown));
  const auto long_key = unknown_key(*parse_strict_json("{\"" + std::string(5000, 'm') + "\": 1}", "f"), kKnown);
  CHECK(long_key->what.size() < 300);
  CHECK(long_key->hint.empty());
}
