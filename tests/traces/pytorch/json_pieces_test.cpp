#include "traces/pytorch/json_pieces.hpp"

#include <vector>

#include "tests/catch.hpp"
#include "tests/traces/pytorch/packing.hpp"

namespace foreshard::traces {
namespace {

using namespace testing;

struct Cut {
  std::vector<std::string> pieces;  // "key=value" of members, "value" of events
  std::string error;
  bool saw_events = false;
};

Cut cut(const std::string& text) {
  ByteSource source = source_of(text);
  JsonPieces pieces(source);
  Cut out;
  for (;;) {
    auto piece = pieces.next();
    if (!piece) {
      out.error = piece.error().where + ": " + piece.error().what;
      break;
    }
    if (!*piece) break;
    CHECK(text.compare((*piece)->offset, (*piece)->text.size(), (*piece)->text) == 0);
    out.pieces.push_back(((*piece)->is_event ? "" : std::string((*piece)->key) + "=") + std::string((*piece)->text));
  }
  out.saw_events = pieces.saw_events();
  return out;
}

TEST_CASE("a trace is cut into members and events") {
  const Cut result = cut(R"( {"a": 1, "b":"}\"]", "c" : [ {"x": [1]} ], "traceEvents": [
    {"name": "a}\\", "args": {"b": {}}} , {} ], "n": null, "t": "end"} )");
  CHECK(result.error.empty());
  CHECK(result.saw_events);
  CHECK(result.pieces == std::vector<std::string>{"a=1", R"(b="}\"]")", R"(c=[ {"x": [1]} ])",
                                                  R"({"name": "a}\\", "args": {"b": {}}})", "{}", "n=null",
                                                  R"(t="end")"});
  CHECK(cut(R"([{"a":1},{}])").pieces.size() == 2);
  CHECK(cut("{}").pieces.empty());
  CHECK(!cut(R"({"traceEvents": 3})").saw_events);
}

TEST_CASE("pieces that straddle chunks are whole") {
  std::string text = R"({"traceEvents": [)";
  for (int i = 0; i < 3000; ++i)
    text += "{\"n\": \"" + std::string(static_cast<std::size_t>(i), '\\') + (i % 2 ? "\\" : "") + "\"},";
  text.back() = ']';
  text += "}";
  const Cut result = cut(text);
  CHECK(result.error.empty());
  CHECK(result.pieces.size() == 3000);
  const Cut large = cut(R"([{"n": ")" + std::string(5'000'000, 'x') + R"("}])");
  REQUIRE(large.pieces.size() == 1);
  CHECK(large.pieces[0].size() == 5'000'009);
}

TEST_CASE("every cut of the text is an error at its end") {
  const std::string text = R"({"a": [1, "x\n"], "traceEvents": [{"b": {"c": 1.5}}, {"d": 2}], "e": true})";
  REQUIRE(cut(text).error.empty());
  for (std::size_t size = 1; size < text.size(); ++size)
    CHECK(cut(text.substr(0, size)).error == "input, byte " + std::to_string(size) + ": the JSON is cut short");
}

TEST_CASE("what is no JSON is refused with its byte") {
  CHECK(cut("\x80\x04]").error == "input, byte 0: this is not JSON");
  CHECK(cut("\xef\xbb\xbf{}").error == "input, byte 0: begins with the byte order mark of UTF-8");
  CHECK(cut(std::string("\xff\xfe{\0", 4)).error == "input, byte 0: begins with the byte order mark of UTF-16");
  CHECK(cut("{x").error == "input, byte 1: this is not valid JSON: a key is expected");
  CHECK(cut(R"({"a" 1})").error == "input, byte 5: this is not valid JSON: a colon is expected");
  CHECK(cut(R"({"a": })").error == "input, byte 6: this is not valid JSON: a value is expected");
  CHECK(cut("[1]").error == "input, byte 1: this is not valid JSON: 'traceEvents' holds something else than objects");
  CHECK(cut("{} {").error == "input, byte 3: this is not valid JSON: something follows its end");
  CHECK(cut("[" + std::string(1000, '[')).error ==
        "input, byte 1: this is not valid JSON: 'traceEvents' holds something else than objects");
}

TEST_CASE("one endless value is refused before it fills the memory") {
  const Cut result = cut(R"([{"n": ")" + std::string(300 * kMiB, 'x') + R"("}])");
  CHECK(result.error.find("one value is longer than 64 MiB") != std::string::npos);
}

TEST_CASE("a million empty arrays cost no stack") {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += R"("traceEvents":[],)";
  text.back() = '}';
  CHECK(cut(text).error.empty());
}

}  // namespace
}  // namespace foreshard::traces
