#include "traces/pytorch/kineto_event.hpp"

#include "tests/catch.hpp"

namespace foreshard::traces {
namespace {

struct Parsed {
  std::string bytes;  // with the padding that a parse may read
  KinetoEventParser parser;
  Result<KinetoEvent> event;

  explicit Parsed(const std::string& text)
      : bytes(text + std::string(JsonPieces::kPadding, ' ')),
        event(parser.parse({true, {}, std::string_view(bytes).substr(0, text.size()), 123}, "input")) {}
};

TEST_CASE("microseconds become integer nanoseconds") {
  CHECK(parse_microseconds("4400789415279.673") == 4400789415279673);
  CHECK(parse_microseconds("0") == 0);
  CHECK(parse_microseconds("1.5") == 1500);
  CHECK(parse_microseconds("1.0004") == 1000);
  CHECK(parse_microseconds("1.0005") == 1001);
  CHECK(parse_microseconds("1.00049999") == 1000);
  CHECK(parse_microseconds("-2.25") == -2250);
  CHECK(parse_microseconds("1.5e3") == 1500000);
  CHECK(parse_microseconds("1790857026000000.001 ") == 1790857026000000001);
  CHECK(!parse_microseconds(""));
  CHECK(!parse_microseconds("-"));
  CHECK(!parse_microseconds("x"));
  CHECK(!parse_microseconds("\"1\""));
  CHECK(!parse_microseconds("1x"));
  CHECK(!parse_microseconds("99999999999999999999999"));
  CHECK(!parse_microseconds("1e99"));
}

TEST_CASE("an event's fields, in any order") {
  const Parsed p(R"({"args": {"correlation": 22, "stream": 7, "grid": [32, 1, 2], "block": [256, 1, 1], "bytes": 16,
    "Collective name": "_allgather_base", "dtype": "BFloat16", "In msg nelems": 4, "Out msg nelems": 16,
    "Process Group Name": "0", "Group size": 4, "est. achieved occupancy %": 3, "x": {"correlation": 9}},
    "dur": 1.632, "ts": 10, "tid": 7, "pid": 0, "name": "k\u00e9\"", "cat": "kernel", "ph": "X"})");
  REQUIRE(p.event);
  const KinetoEvent& e = *p.event;
  CHECK(e.role == EventRole::kernel);
  CHECK(e.name == "ké\"");
  CHECK(e.start_ns == 10000);
  CHECK(e.duration_ns == 1632);
  CHECK(e.correlation == 22);
  CHECK(e.stream == 7);
  CHECK(e.grid == std::array<std::uint32_t, 3>{32, 1, 2});
  CHECK(e.block[0] == 256);
  CHECK(e.bytes == 16);
  CHECK(e.collective.name == "_allgather_base");
  CHECK(e.collective.out_elements == 16);
  CHECK(e.collective.group_size == 4);
  CHECK(!e.malformed_field);
}

TEST_CASE("fields of the wrong type are left out and said to be") {
  for (const char* text :
       {R"({"ph": "X", "cat": "kernel", "ts": "1"})", R"({"ph": "X", "cat": "kernel", "tid": 1.5})",
        R"({"ph": "X", "cat": "kernel", "args": {"correlation": -1}})",
        R"({"ph": "X", "cat": "kernel", "args": {"grid": [1, 2, 3, 4]}})",
        R"({"ph": "X", "cat": "kernel", "args": {"grid": 1}})", R"({"ph": "X", "cat": "kernel", "args": 5})",
        R"({"ph": "X", "cat": "kernel", "name": []})"}) {
    INFO(text);
    const Parsed p(text);
    REQUIRE(p.event);
    CHECK(p.event->malformed_field);
    CHECK(p.event->role == EventRole::kernel);
  }
}

TEST_CASE("roles by category and phase") {
  const auto role = [](const char* text) { return Parsed(text).event->role; };
  CHECK(role(R"({"ph": "X", "cat": "cuda_driver"})") == EventRole::runtime);
  CHECK(role(R"({"ph": "X", "cat": "user_annotation"})") == EventRole::annotation);
  CHECK(role(R"({"ph": "M", "name": "process_name"})") == EventRole::metadata);
  CHECK(role(R"({"ph": "s", "cat": "ac2g"})") == EventRole::ignored);
  CHECK(role(R"({"ph": "i", "name": "Iteration Start"})") == EventRole::ignored);
  CHECK(role(R"({"ph": "X", "cat": "novel"})") == EventRole::other);
  CHECK(role(R"({"ph": "X", "cat": "Kernel"})") == EventRole::kernel);
  CHECK(role("{}") == EventRole::ignored);
}

TEST_CASE("broken JSON inside an event names the event's byte") {
  for (const char* text :
       {R"({"a" 1})", R"({"name": "\q"})", "{\"name\": \"\xff\"}", R"({"args": {"grid": [1 2]}})", R"({"a": 1, })"}) {
    INFO(text);
    const Parsed p(text);
    REQUIRE(!p.event);
    CHECK(p.event.error().where == "input, byte 123");
    CHECK(p.event.error().what.starts_with("this event is not valid JSON: "));
  }
}

}  // namespace
}  // namespace foreshard::traces
