// Lengths as they are given, what is refused, and that draws are repeatable.
#include "sim/forecast/lengths.hpp"

#include <rapidcheck.h>

#include <map>

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::sim;

TEST_CASE("a list runs in its order and begins anew behind its end", "[forecast][lengths]") {
  const auto lengths = parse_length_list("512 # the first\n\n  # nothing\r\n1024\r\n7", "lengths.txt");
  REQUIRE(lengths);
  CHECK_FALSE(lengths->drawn());
  CHECK(lengths->size() == 3);
  CHECK(lengths->at(1, 0) == 512);
  CHECK(lengths->at(9, 2) == 7);
  CHECK(lengths->at(1, 4) == 1024);
  CHECK(lengths->distinct(1, 2) == std::vector<std::uint32_t>{512, 1024});
}

TEST_CASE("what is no length is refused with file and line", "[forecast][lengths]") {
  for (const char* bad : {"512\n0\n", "512\n-3", "512\n1e3", "512\n5 6", "512\n99999999999", "512\n16777217"}) {
    INFO(bad);
    const auto lengths = parse_length_list(bad, "lengths.txt");
    REQUIRE_FALSE(lengths);
    CHECK(lengths.error().kind == ErrorKind::input);
    CHECK(lengths.error().where == "lengths.txt:2");
  }
  CHECK(parse_length_list("# none\n", "lengths.txt").error().where == "lengths.txt");
}

TEST_CASE("a histogram is drawn by its weights, the same for the same seed", "[forecast][lengths]") {
  const auto lengths = parse_distribution("2048:1,512:8,1024:1");
  REQUIRE(lengths);
  CHECK(lengths->drawn());
  std::map<std::uint32_t, int> count;
  bool seeds_differ = false;
  for (std::size_t step = 0; step < 10'000; ++step) {
    ++count[lengths->at(3, step)];
    seeds_differ = seeds_differ || lengths->at(3, step) != lengths->at(4, step);
    CHECK(lengths->at(3, step) == lengths->at(3, step));
  }
  CHECK(seeds_differ);
  REQUIRE(count.size() == 3);
  CHECK(count[512] == Approx(8000).margin(200));
  CHECK(count[1024] == Approx(1000).margin(150));
  CHECK(lengths->at(3, 0) == parse_distribution("512:8,1024:1,2048:1")->at(3, 0));
}

TEST_CASE("uniform and log-normal lengths stay in their range", "[forecast][lengths]") {
  const auto uniform = parse_distribution("uniform:256..2048");
  const auto lognormal = parse_distribution("lognormal:700,0.55,256..2048");
  REQUIRE(uniform);
  REQUIRE(lognormal);
  double below = 0;
  for (std::size_t step = 0; step < 4000; ++step) {
    for (const Lengths* lengths : {&*uniform, &*lognormal}) {
      CHECK(lengths->at(1, step) >= 256);
      CHECK(lengths->at(1, step) <= 2048);
    }
    below += lognormal->at(1, step) <= 700 ? 1 : 0;
  }
  CHECK(below / 4000 == Approx(0.5).margin(0.03));  // the median
}

TEST_CASE("a byte order mark is passed over", "[forecast][lengths]") {
  const auto lengths = parse_length_list(
      "\xEF\xBB\xBF"
      "512\r\n256\r\n",
      "x");
  REQUIRE(lengths);
  CHECK(lengths->at(0, 0) == 512);
  CHECK(Lengths::constant(7).at(3, 9) == 7);
}

TEST_CASE("padding rounds up", "[forecast][lengths]") {
  const auto lengths = parse_length_list("1\n64\n65\n700", "x");
  REQUIRE(lengths);
  const Lengths padded = lengths->padded(64);
  CHECK(padded.distinct(0, 4) == std::vector<std::uint32_t>{64, 128, 704});
  CHECK(lengths->at(0, 0) == 1);
}

TEST_CASE("a distribution that is none is refused", "[forecast][lengths]") {
  for (const char* bad :
       {"", "512", "512:0", "512:1,", "512:1,,7:1", "0:3", "512:1,512:2", "uniform:", "uniform:5", "uniform:9..3",
        "uniform:1..99999999", "lognormal:700", "lognormal:700,0.5", "lognormal:700,0,1..9", "lognormal:700,nan,1..9",
        "lognormal:-1,1,1..9", "lognormal:7,9,1..9"}) {
    INFO(bad);
    const auto lengths = parse_distribution(bad);
    REQUIRE_FALSE(lengths);
    CHECK(lengths.error().kind == ErrorKind::usage);
    CHECK_FALSE(lengths.error().hint.empty());
  }
}

TEST_CASE("any text gives lengths in their range, or an error", "[forecast][lengths][property]") {
  CHECK(rc::check([] {
    const auto text =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("0123456789:,.#\n uniformlgae-")));
    const std::string prefix = *rc::gen::element<std::string>("", "uniform:", "lognormal:");
    for (const auto& lengths : {parse_length_list(text, "x"), parse_distribution(prefix + text)}) {
      if (!lengths) {
        RC_ASSERT(!lengths.error().what.empty());
        continue;
      }
      for (std::size_t step = 0; step < 20; ++step) {
        RC_ASSERT(lengths->at(1, step) >= 1U);
        RC_ASSERT(lengths->at(1, step) <= kMaxLength);
      }
    }
  }));
}

TEST_CASE("a name is told from a distribution", "[forecast][lengths]") {
  CHECK(is_distribution("512:10,1024:5"));
  CHECK(is_distribution("uniform:1..2"));
  CHECK(is_distribution("lognormal:x"));
  CHECK_FALSE(is_distribution("lengths.txt"));
  CHECK_FALSE(is_distribution("./512:10"));
  CHECK_FALSE(is_distribution("512"));
}
TEST_CASE("a list can be drawn from, and what can be drawn is known") {
  const Lengths list = parse_length_list("512\n1024\n512\n700\n", "f")->as_distribution();
  CHECK(list.drawn());
  CHECK((list.possible() == std::vector<std::uint32_t>{512, 700, 1024}));
  CHECK((list.padded(512).possible() == std::vector<std::uint32_t>{512, 1024}));
  std::size_t shorter = 0;
  for (std::size_t step = 0; step < 4000; ++step) shorter += list.at(3, step) == 512 ? 1 : 0;
  CHECK(shorter > 1850);  // every other line
  CHECK(shorter < 2150);
  CHECK((parse_distribution("uniform:250..520")->padded(128).possible() ==
         std::vector<std::uint32_t>{256, 384, 512, 640}));
  CHECK(parse_distribution("lognormal:700,0.55,256..2048")->possible().size() == 1793);
}

TEST_CASE("a run is made of few lengths: each with its share, or five nearest ranks") {
  const Lengths few = parse_length_list("512\n1024\n512\n700\n", "f").value();
  const auto shares = few.shares(0, 8);
  REQUIRE(shares.size() == 3);
  CHECK((shares[0].length == 512 && shares[0].share == 0.5));
  CHECK((shares[1].length == 700 && shares[1].share == 0.25));
  CHECK((shares[2].length == 1024 && shares[2].share == 0.25));
  std::string list;
  for (int length = 100; length > 0; --length) list += std::to_string(length) + "\n";
  const auto ranks = parse_length_list(list, "f")->shares(0, 100);
  std::vector<std::uint32_t> lengths;
  for (const LengthShare& one : ranks) {
    lengths.push_back(one.length);
    CHECK(one.share == 0.2);
  }
  CHECK((lengths == std::vector<std::uint32_t>{10, 30, 50, 70, 90}));
}
