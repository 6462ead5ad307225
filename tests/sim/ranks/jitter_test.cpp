// What --jitter says, and how it is drawn.
#include "sim/ranks/jitter.hpp"

#include <cmath>

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

std::string refusal(std::string_view text) {
  const auto jitter = parse_jitter(text);
  REQUIRE_FALSE(jitter);
  CHECK(jitter.error().kind == ErrorKind::usage);
  return jitter.error().what;
}

TEST_CASE("jitter is read as it is written") {
  const auto jitter = parse_jitter("gpus=normal:1%,kernels=lognormal:2.5%,host=lognormal:120%");
  REQUIRE(jitter);
  CHECK(jitter->kernels == Spread{Spread::Kind::lognormal, 0.025});
  CHECK(jitter->host == Spread{Spread::Kind::lognormal, 1.2});
  CHECK(jitter->gpus == Spread{Spread::Kind::normal, 0.01});
  CHECK(jitter->hosts == Spread{});
  CHECK(text_of(*jitter) == "kernels=lognormal:2.5%,host=lognormal:120%,gpus=normal:1%");
}

TEST_CASE("what is no jitter is refused, with the place") {
  CHECK(refusal("kernels") == "--jitter 'kernels': is not WHAT=DISTRIBUTION:PERCENT%");
  CHECK(refusal("") == "--jitter '': is not WHAT=DISTRIBUTION:PERCENT%");
  CHECK(refusal("gpus=normal:1%,") == "--jitter '': is not WHAT=DISTRIBUTION:PERCENT%");
  CHECK(refusal("links=normal:1%") == "--jitter 'links=normal:1%': what is drawn is one of kernels, host, gpus, hosts");
  CHECK(refusal("host=gamma:1%") == "--jitter 'host=gamma:1%': the distribution is normal or lognormal");
  CHECK(refusal("host=normal:0.1") == "--jitter 'host=normal:0.1': the standard deviation is in percent of the mean");
  CHECK(refusal("host=normal:40%") ==
        "--jitter 'host=normal:40%': '40' is no percentage above 0 and up to 33, as normal; lognormal reaches further");
  CHECK(refusal("host=normal:1%,host=normal:2%") == "--jitter 'host=normal:2%': host are said twice");
  for (const char* bad : {"host=normal:nan%", "host=normal:-1%", "host=normal:0%", "host=normal:%", "host=normal:1x%"})
    static_cast<void>(refusal(bad));
}

TEST_CASE("draws have mean 1 and the deviation that was asked for") {
  constexpr int kDraws = 200'000;
  for (const Spread spread : {Spread{Spread::Kind::normal, 0.02}, Spread{Spread::Kind::normal, 0.33},
                              Spread{Spread::Kind::lognormal, 0.02}, Spread{Spread::Kind::lognormal, 1}}) {
    const Draws draws{spread, 42};
    double sum = 0, squares = 0;
    for (std::uint64_t place = 0; place < kDraws; ++place) {
      const double factor = draws.factor(place);
      REQUIRE(factor > 0);
      sum += factor;
      squares += (factor - 1) * (factor - 1);
    }
    CHECK(std::abs(sum / kDraws - 1) < 4 * spread.deviation / std::sqrt(kDraws));
    CHECK(std::abs(std::sqrt(squares / kDraws) / spread.deviation - 1) < 0.03);
  }
  CHECK(Draws{{}, 42}.factor(7) == 1);
}

TEST_CASE("a draw depends on whose it is and on its place alone") {
  const Spread spread{Spread::Kind::normal, 0.1};
  CHECK(Draws{spread, 1}.factor(5) == Draws{spread, 1}.factor(5));
  CHECK(Draws{spread, 1}.factor(5) != Draws{spread, 1}.factor(6));
  CHECK(Draws{spread, 1}.factor(5) != Draws{spread, 2}.factor(5));
  CHECK(mixed(1, 2) != mixed(2, 1));
}

}  // namespace
}  // namespace foreshard::sim
