#include "cli/terminal/output.hpp"

#include <sstream>

#include "cli/terminal/console.hpp"
#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::cli;

TEST_CASE("tables align, numbers to the right, without blanks at the end") {
  Table table({{"name"}, {"bytes", Table::Align::right}, {""}});
  table.row({"über", "1"});
  table.row({"x", "1000", "y"});
  std::ostringstream out;
  table.print(out);
  CHECK(out.str() ==
        "name  bytes\n"
        "----  -----  -\n"
        "über      1\n"
        "x      1000  y\n");
}

TEST_CASE("JSON results begin with the schema and survive bytes that are no text") {
  Json result = json_result("replay");
  result["name"] = "\xff";
  std::ostringstream out;
  print_json(out, result);
  CHECK(out.str() == "{\n  \"schema\": 1,\n  \"verb\": \"replay\",\n  \"name\": \"\xef\xbf\xbd\"\n}\n");
}

TEST_CASE("numbers for people") {
  CHECK(exact_bytes(0) == "0");
  CHECK(exact_bytes(999) == "999");
  CHECK(exact_bytes(16793993216) == "16,793,993,216");
  CHECK(milliseconds(174.0175) == "174.02 ms");
  CHECK(change(100, 97) == "-3.0 %");
  CHECK(change(0, 97).empty());
  CHECK(csv_field("plain") == "plain");
  CHECK(csv_field("a,\"b\"") == "\"a,\"\"b\"\"\"");
}

TEST_CASE("notes are quiet, warnings are not; no bar without a terminal") {
  std::ostringstream out, err;
  Console console{out, err};
  console.quiet = true;
  console.note("news");
  console.warn("careful");
  { Progress(console, "reading").at(1, 2); }
  CHECK(err.str() == "warning: careful\n");
  console.quiet = false;
  console.terminal = true;
  { Progress(console, "reading").at(1, 2); }
  CHECK(err.str().find("reading") != std::string::npos);
  CHECK(err.str().ends_with("\r\033[K"));
  CHECK(out.str().empty());
}
