#include "core/base/units.hpp"

#include "tests/catch.hpp"

using namespace foreshard;

TEST_CASE("sizes keep binary, decimal and bit prefixes apart") {
  CHECK(parse_bytes("512").value() == 512);
  CHECK(parse_bytes("512B").value() == 512);
  CHECK(parse_bytes("80GiB").value() == 80 * kGiB);
  CHECK(parse_bytes("80GB").value() == 80'000'000'000u);
  CHECK(parse_bytes("1.5 GiB").value() == 3 * kGiB / 2);
  CHECK(parse_bytes("4Gb").value() == 500'000'000u);
  CHECK(parse_bytes("18446744073709551615").value() == 18446744073709551615u);
  CHECK(parse_bytes("0.5B").value() == 1);
  CHECK(parse_bytes("20gib").value() == 20 * kGiB);
  CHECK(parse_bytes("20 GIB").value() == 20 * kGiB);
}

TEST_CASE("what is not a size is refused with a hint") {
  for (const char* text :
       {"", "GiB", "1.2.3", "80gb", "80gbs", "80bib", "-1", "1e9", "80GiB/s", "99999999999999999999999", ".", "0x10"}) {
    INFO(text);
    const auto result = parse_bytes(text);
    REQUIRE_FALSE(result);
    CHECK(result.error().kind == ErrorKind::usage);
    CHECK_FALSE(result.error().hint.empty());
  }
}

TEST_CASE("bandwidths") {
  CHECK(parse_bandwidth("400Gb/s").value() == 50e9);
  CHECK(parse_bandwidth("400Gbps").value() == 50e9);
  CHECK(parse_bandwidth("50GB/s").value() == 50e9);
  CHECK(parse_bandwidth("1GiB/s").value() == 1073741824.0);
  CHECK(parse_bandwidth("123").value() == 123.0);
  CHECK_FALSE(parse_bandwidth("400Gb"));
  CHECK_FALSE(parse_bandwidth("400Gb/h"));
}

TEST_CASE("times need a unit") {
  CHECK(parse_time("12.5us").value().count == 12'500);
  CHECK(parse_time("12.5µs").value().count == 12'500);
  CHECK(parse_time("3ms").value().count == 3'000'000);
  CHECK(parse_time("2min").value().count == 120'000'000'000);
  CHECK(parse_time("0").value().count == 0);
  CHECK_FALSE(parse_time("5"));
  CHECK_FALSE(parse_time("5 parsecs"));
  CHECK_FALSE(parse_time("99999999999s"));
}

TEST_CASE("counts are digits alone") {
  CHECK(parse_count("16384").value() == 16384);
  for (const char* text : {"", "-1", "+1", "1.0", "4294967296", "4 "}) CHECK_FALSE(parse_count(text));
}

TEST_CASE("printed quantities read back") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(80 * kGiB) == "80 GiB");
  CHECK(format_bytes(16'793'993'216) == "15.64 GiB");
  CHECK(format_bytes_fixed(0) == "0 B");
  CHECK(format_bytes_fixed(1023) == "1023 B");
  CHECK(format_bytes_fixed(1024) == "1.00 KiB");
  CHECK(format_bytes_fixed(1503238554) == "1.40 GiB");
  CHECK(format_bytes_difference(-1536) == "-1.50 KiB");
  CHECK(format_bytes_difference(2 * 1048576) == "+2.00 MiB");
  CHECK(format_bandwidth(50e9) == "50 GB/s");
  CHECK(format_time({12'500}) == "12.5 us");
  CHECK(format_time({-3'210'000}) == "-3.21 ms");
  CHECK(format_time({999}) == "999 ns");
  CHECK(parse_bytes(format_bytes(3 * kGiB / 2)).value() == 3 * kGiB / 2);
}
