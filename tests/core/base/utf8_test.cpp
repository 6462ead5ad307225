#include "core/base/utf8.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

TEST_CASE("a UTF-8 sequence has the length that RFC 3629 gives it") {
  CHECK(utf8_length("") == 0);
  CHECK(utf8_length(std::string_view("\0", 1)) == 1);
  CHECK(utf8_length("aé") == 1);
  CHECK(utf8_length("é") == 2);
  CHECK(utf8_length("→x") == 3);
  CHECK(utf8_length("\xef\xbf\xbf") == 3);      // U+FFFF is UTF-8, if no XML
  CHECK(utf8_length("\xf4\x8f\xbf\xbf") == 4);  // U+10FFFF, the last
}

TEST_CASE("what is no UTF-8 sequence has none: stray, cut, overlong, a surrogate, beyond the last character") {
  for (const std::string_view text :
       {"\x80", "\xff", "\xc3", "\xc3(", "\xe2\x86", "\xf0\x9f\x98", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf",
        "\xf0\x8f\xbf\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"})
    CHECK(utf8_length(text) == 0);
}

TEST_CASE("each byte of no sequence becomes U+FFFD, the rest stays") {
  CHECK(valid_utf8("plain") == "plain");
  CHECK(valid_utf8("a\xff\xc3(\xed\xa0\x80 é") == "a��(��� é");
}

}  // namespace
}  // namespace foreshard
