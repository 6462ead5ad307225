#include "cli/terminal/output.hpp"

#include <sstream>

#include "cli/terminal/console.hpp"
#include "cli/terminal/printable.hpp"
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

TEST_CASE("control characters are written out before a terminal sees them") {
  CHECK(printable("a\x1b[2Jb\x07\x7f", Lines::many) == "a\\x1b[2Jb\\x07\\x7f");
  CHECK(printable("\xc2\x9b"
                  "31m \xc3\xa9\xc2\xa0\xff",
                  Lines::many) == "\\u009b31m \xc3\xa9\xc2\xa0\xff");
  CHECK(printable("a\n\tb\r", Lines::many) == "a\n\tb\\x0d");
  CHECK(printable("a\n\tb", Lines::one) == "a\\n\\tb");
  // Those that turn the direction of writing, and a separator; their neighbours stay: U+2010, U+2065, U+2500, a cut
  // one.
  CHECK(printable("\u202ea\u2066b\u2069\u200f\u2028", Lines::many) == "\\u202ea\\u2066b\\u2069\\u200f\\u2028");
  CHECK(printable("\u2010\u2065\u2500\xe2\x80", Lines::many) == "\u2010\u2065\u2500\xe2\x80");

  Table table({{"name"}});
  table.row({"x\x1b]0;title\x07\ny"});
  std::ostringstream out, err;
  table.print(out);
  CHECK(out.str() == "name\n--------------------\nx\\x1b]0;title\\x07\\ny\n");
  Console console{out, err};
  console.error("run\x1b[31m.db: wrong");
  console.note("\x9b");
  console.warn("a\nerror: b");
  CHECK(err.str() == "error: run\\x1b[31m.db: wrong\n\x9b\nwarning: a\\nerror: b\n");
}

TEST_CASE("a terminal's stream is printable, also where a character comes in two pieces") {
  std::stringbuf to;
  PrintableBuffer buffer(to);
  std::ostream out(&buffer);
  out << "a\x1b"
      << "\xc2"
      << "\x9b" << 'b' << "\xc2"
      << "\xa0\xe2"
      << "\x80"
      << "\xae"
      << "\xe2\x94"
      << "\x80" << std::flush;
  CHECK(to.str() == "a\\x1b\\u009bb\xc2\xa0\\u202e\u2500");
}

TEST_CASE("messages are not as long as the values in them") {
  CHECK(shortened("short", 10) == "short");
  CHECK(shortened(std::string(1000, 'x'), 20).size() == 20);
  const std::string text = shortened(std::string(500, 'a') + "\xc3\xa9" + std::string(500, 'b'), 505);
  CHECK(text.find(" … ") != std::string::npos);
  CHECK(text.ends_with("b"));
  std::ostringstream out, err;
  Console console{out, err};
  console.error("--batch: '" + std::string(4'000'000, '9') + "' is no number\n  hint: give one");
  CHECK(err.str().size() < 2100);
  CHECK(err.str().ends_with("is no number\n  hint: give one\n"));
}

TEST_CASE("a table in pieces is as wide as its first") {
  Table table({{"n"}, {"v", Table::Align::right}});
  std::ostringstream out;
  table.row({"aa", "1"});
  table.print_more(out);
  table.row({"b", "22"});
  table.print_more(out);
  CHECK(out.str() == "n   v\n--  -\naa  1\nb   22\n");
}
