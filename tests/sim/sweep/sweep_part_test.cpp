// A part of a sweep as a file, and back.
#include "sim/sweep/sweep_part.hpp"

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

std::vector<SweepPoint> points() {
  std::vector<SweepPoint> out(7);
  for (std::size_t i = 0; i < out.size(); ++i) {
    SweepPoint& point = out[i];
    point.state = static_cast<SweepPoint::State>(i % 4);
    point.reason = i % 4 > 1 ? "because \"of\" it" : "";
    point.has_time = i % 2 == 0;
    point.step_ms = 1.0 / static_cast<double>(i + 3);  // no short decimal
    point.uncertainty = 0.1 * static_cast<double>(i);
    point.peaks = {~Bytes{0} - i, i, 2 * i, 3 * i};
    point.num_alloc_retries = static_cast<std::int64_t>(i);
    point.floor = {1.0 / static_cast<double>(i + 7), 0, static_cast<double>(i)};
    point.not_measured = i;
    point.valid = i % 3 == 0;
    point.not_valid = {"modelled", std::to_string(i)};
    point.warnings = {"a warning"};
  }
  return out;
}

TEST_CASE("parts hold every point once, and numbers come back to the last bit") {
  const std::vector<SweepPoint> all = points();
  for (const std::uint32_t of : {1U, 2U, 3U, 7U, 9U}) {
    std::size_t found = 0;
    for (std::uint32_t number = 0; number < of; ++number) {
      const Part part{number, of};
      const auto read = parse_sweep_part(sweep_part_text(part, "xxh3:0", all), "part.json");
      INFO((read ? "" : read.error().text()));
      REQUIRE(read);
      CHECK(read->part.number == number);
      CHECK(read->part.of == of);
      CHECK(read->fingerprint == "xxh3:0");
      REQUIRE(read->found.size() == all.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(read->found[i].has_value() == part.has(i));
        if (!read->found[i]) continue;
        ++found;
        const SweepPoint& point = *read->found[i];
        CHECK(point.state == all[i].state);
        CHECK(point.reason == all[i].reason);
        CHECK(point.step_ms == all[i].step_ms);
        CHECK(point.floor.compute_ms == all[i].floor.compute_ms);
        CHECK(point.floor.host_ms == all[i].floor.host_ms);
        CHECK(point.not_measured == all[i].not_measured);
        CHECK(point.peaks == all[i].peaks);
        CHECK(point.not_valid == all[i].not_valid);
        CHECK(point.warnings == all[i].warnings);
      }
    }
    CHECK(found == all.size());
  }
}

TEST_CASE("a damaged part is refused") {
  const std::string whole = sweep_part_text({1, 3}, "xxh3:0", points());
  for (std::size_t length = 0; length + 2 < whole.size(); length += 7)
    CHECK_FALSE(parse_sweep_part(whole.substr(0, length), "part.json"));
  const auto changed = [&](const std::string& what, const std::string& to) {
    std::string text = whole;
    const std::size_t at = text.find(what);
    REQUIRE(at != std::string::npos);
    return parse_sweep_part(text.replace(at, what.size(), to), "part.json");
  };
  CHECK_FALSE(changed("\"schema\":1", "\"schema\":2"));
  CHECK_FALSE(changed("\"part\":1", "\"part\":3"));
  CHECK_FALSE(changed("\"parts\":3", "\"parts\":0"));
  CHECK_FALSE(changed("\"piece\":4", "\"piece\":1"));   // there already
  CHECK_FALSE(changed("\"piece\":4", "\"piece\":5"));   // another part's
  CHECK_FALSE(changed("\"piece\":4", "\"piece\":40"));  // none
  CHECK_FALSE(changed("\"pieces\":7", "\"pieces\":70"));
  CHECK_FALSE(changed("\"pieces\":7", "\"pieces\":9999999999"));
  CHECK_FALSE(changed("\"state\":\"out of memory\"", "\"state\":\"tired\""));
  CHECK_FALSE(changed("\"host_bound\":false", "\"host_bound\":0"));
  CHECK_FALSE(changed("\"warnings\":[\"a warning\"]", "\"warnings\":[1]"));
}

}  // namespace
}  // namespace foreshard::sim
