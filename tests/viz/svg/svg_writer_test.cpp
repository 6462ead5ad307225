// Numbers and text in SVG.

#include "viz/scene/svg_writer.hpp"

#include "tests/catch.hpp"
#include "viz/scene/caption.hpp"

using namespace foreshard::viz;

TEST_CASE("numbers are short, and never -0") {
  CHECK(number(0) == "0");
  CHECK(number(-0.001) == "0");
  CHECK(number(-0.5) == "-0.5");
  CHECK(number(12.345) == "12.35");
  CHECK(number(100) == "100");
  CHECK(number(3.1) == "3.1");
  CHECK(number(-7.06) == "-7.06");
}

TEST_CASE("text is escaped, and what is not UTF-8 is replaced") {
  CHECK(escape("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;");
  CHECK(escape("caf\xc3\xa9 × 2") == "caf\xc3\xa9 × 2");
  CHECK(escape(std::string("x\x01y")) == "x\xef\xbf\xbdy");
  CHECK(escape("\xff\xc3") == "\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(escape("\xed\xa0\x80") == "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate
}

TEST_CASE("long names give way in the middle, by letters and not by bytes") {
  CHECK(shortened("abcdefghij", 10) == "abcdefghij");
  CHECK(shortened("abcdefghijk", 7) == "abcd…jk");
  CHECK(shortened("éééééééé", 4) == "éé…é");
}

TEST_CASE("lines are no wider than asked for, where words allow it") {
  const std::string longest =
      "too thin to be seen: other 512 B, metadata 800.5 KiB, inputs 160 KiB, temporaries 480.5 KiB";
  const auto lines = wrapped({"step 33.52 ms", longest, "pale"}, " · ", 200, 12);
  std::string all;
  for (const std::string& line : lines) {
    CHECK(text_width(line, 12) <= 200);
    all += (all.empty() ? "" : " ") + line;
  }
  CHECK(lines.size() > 2);
  CHECK(all.find("temporaries 480.5 KiB") != std::string::npos);
  CHECK(wrapped({"a", "b"}, " · ", 200, 12) == std::vector<std::string>{"a · b"});
}
