// Seeds of a forecast in parts: each part as a file, and back.
#include "sim/forecast/forecast_part.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/sim/forecast/hand_programs.hpp"

namespace foreshard::sim::test {
namespace {

/// Seven seeds under a limit that some retry under, and some end under.
ForecastRequest request() {
  return {parse_distribution("uniform:100..300").value(), 40, {3, 4, 5, 6, 7, 8, 9}, {process(8 * kGiB, 245 * kMiB)}};
}

std::vector<SeedForecast> seeds_of(const ForecastRequest& request) {
  StackPrograms programs({300'000, 100'000, 500'000});
  auto seeds = run_forecast(programs, request);
  REQUIRE(seeds);
  return std::move(*seeds);
}

std::string whole_text(const std::vector<SeedForecast>& seeds) {
  return forecast_part_text({}, "xxh3:0", seeds);
}

TEST_CASE("seeds in parts are the seeds, to the byte", "[forecast]") {
  const std::vector<SeedForecast> all = seeds_of(request());
  const auto fails = [](const SeedForecast& seed) { return seed.out_of_memory.has_value(); };
  REQUIRE(std::any_of(all.begin(), all.end(), fails));
  REQUIRE(std::any_of(all.begin(), all.end(), [](const SeedForecast& seed) { return !seed.retries.empty(); }));
  for (const std::uint32_t of : {1U, 3U, 9U}) {
    ForecastRequest joined = request();
    joined.known.resize(all.size());
    for (std::uint32_t number = 0; number < of; ++number) {
      ForecastRequest one = request();
      one.part = {number, of};
      const auto read = parse_forecast_part(forecast_part_text(one.part, "xxh3:0", seeds_of(one)), "part.json");
      INFO((read ? "" : read.error().text()));
      REQUIRE(read);
      CHECK(read->part == one.part);
      CHECK(read->fingerprint == "xxh3:0");
      REQUIRE(read->found.size() == all.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(read->found[i].has_value() == one.part.has(i));
        if (read->found[i]) joined.known[i] = *read->found[i];
      }
    }
    const std::vector<SeedForecast> again = seeds_of(joined);
    CHECK(whole_text(again) == whole_text(all));
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(again[i].seed == all[i].seed);
  }
}

TEST_CASE("a damaged part of a forecast is refused", "[forecast]") {
  const std::string whole = whole_text(seeds_of(request()));
  for (std::size_t length = 0; length + 2 < whole.size(); length += 97)
    CHECK_FALSE(parse_forecast_part(whole.substr(0, length), "part.json"));
  const auto changed = [&](const std::string& what, const std::string& to) {
    std::string text = whole;
    const std::size_t at = text.find(what);
    INFO(what);
    REQUIRE(at != std::string::npos);
    return parse_forecast_part(text.replace(at, what.size(), to), "part.json");
  };
  CHECK(changed("\"schema\":1", "\"schema\":1"));
  CHECK_FALSE(changed("\"part_of\":\"seeds\"", "\"part_of\":\"trials\""));
  CHECK_FALSE(changed("\"retries\":[", "\"retries\":[0,"));  // a column longer than the others
  CHECK_FALSE(changed("\"released\":[", "\"released\":[-1,"));
  CHECK_FALSE(changed("\"served\":true", "\"served\":1"));
  CHECK_FALSE(changed("\"growth\":[", "\"growth\":[7,"));
  CHECK_FALSE(changed("\"before_first\":false", "\"before\":false"));
  CHECK_FALSE(changed("\"driver_frees\":", "\"frees\":"));
}

}  // namespace
}  // namespace foreshard::sim::test
