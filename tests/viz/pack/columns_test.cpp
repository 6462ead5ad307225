// How a piece is laid out.

#include "tests/viz/pack/decode.hpp"
#include "viz/pack/address_axis.hpp"

using namespace foreshard;
using namespace foreshard::viz;

TEST_CASE("columns come back as they went in") {
  const std::vector<Column> written{{0, 1, -1, 63, 64, -64, -65, 1'000'000'007},
                                    {INT64_MAX, INT64_MIN, 0, std::int64_t{1} << 52, -(std::int64_t{1} << 52)},
                                    {},
                                    {7}};
  CHECK(decoded(encode(written)) == written);
  CHECK(decoded(inflated(compressed(encode(written)))) == written);
}

TEST_CASE("a piece's bytes are those that docs/view.md promises") {
  const std::vector<Column> one{{3, 2, 130}};
  // One column of three values: +3, −1, +128 as zigzag 6, 1, 256.
  CHECK(encode(one) == std::string("\x01\0\0\0\x03\0\0\0\x06\x01\x80\x02", 12));
}

TEST_CASE("base64 pads as RFC 4648 does") {
  CHECK(base64("").empty());
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(base64("\xff\xfe\xfd") == "//79");
}

TEST_CASE("the address axis has no holes and no overlaps") {
  const AddressAxis axis({{0x4000, 0x1000, 0}, {0x1000, 0x1000, 0}, {0x2000, 0x800, 0}, {0x2400, 0x800, 0}, {9, 0, 0}});
  REQUIRE(axis.ranges().size() == 2);
  CHECK(axis.ranges()[0].size == 0x1c00);
  CHECK(axis.ranges()[1].place == 0x1c00);
  CHECK(axis.length() == 0x2c00);
  CHECK(axis.place(0x1010) == 0x10);
  CHECK(axis.place(0x4010) == 0x1c10);
  CHECK(axis.place(0x3000) == 0x1c00);  // in the hole: at its edge
  CHECK(axis.place(0) == 0);
  CHECK(AddressAxis({{UINT64_MAX - 10, 100, 0}}).length() == 10);
}
