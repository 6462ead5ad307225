#include "core/base/add_up.hpp"

#include <numeric>

#include "core/base/units.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

TEST_CASE("shares add up to a hundred as they are printed") {
  CHECK(shares_of({1, 1, 1}, 0) == std::vector<double>{34, 33, 33});
  CHECK(shares_of({456, 366, 178}, 0) == std::vector<double>{46, 36, 18});  // 46 + 37 + 18 each alone
  CHECK(shares_of({0, 0}, 1) == std::vector<double>{0, 0});
  const std::vector<double> many = shares_of({1, 2, 3, 5, 8, 13, 21}, 1);
  CHECK(std::accumulate(many.begin(), many.end(), 0.0) == Approx(100).epsilon(1e-9));
}

TEST_CASE("parts add up to the whole that stands beside them") {
  CHECK(add_up({1.234, 2.348, 3.424}, 7.006, 2) == std::vector<double>{1.24, 2.35, 3.42});
  CHECK(add_up({-1.004, 2.006}, 1.002, 2) == std::vector<double>{-1, 2});
  CHECK(add_up({1.234, 2.344}, 9, 2) == std::vector<double>{1.23, 2.34});  // not parts of it
}

TEST_CASE("sizes add up to the one below them, each in its own unit") {
  const Bytes third = kGiB + kGiB / 3;  // 1.33 each, and 4.00
  const std::vector<Bytes> parts = add_up({third, third, third}, 3 * third);
  CHECK(format_bytes_fixed(parts[0]) == "1.33 GiB");
  CHECK(format_bytes_fixed(parts[1]) == "1.33 GiB");
  CHECK(format_bytes_fixed(parts[2]) == "1.34 GiB");
  // A small one stays as it is, and the others add up to what it leaves.
  CHECK(format_bytes_fixed(add_up({third, third, 64 * kMiB}, 2 * third + 64 * kMiB)[2]) == "64.00 MiB");
  CHECK(add_up({5, 7}, Bytes{12}) == std::vector<Bytes>{5, 7});
  CHECK(add_up({third, third}, 9 * third) == std::vector<Bytes>{third, third});  // not parts of it
}

TEST_CASE("a difference is that of the numbers beside it") {
  CHECK(printed_difference(1.006, 0.994, 2) == Approx(0.02));
  CHECK(printed_difference(1.004, 0.996, 2) == Approx(0));
  const Bytes a = 15 * kGiB + kGiB / 8, b = 6 * kGiB + kGiB / 3;  // 15.12 (15.125), 6.33
  CHECK(format_bytes(printed_difference(a, b)) == "8.79 GiB");
  CHECK(printed_difference(Bytes{15 * kGiB}, Bytes{15 * kGiB - 12 * kMiB}) == 12 * kMiB);
}

}  // namespace
}  // namespace foreshard
