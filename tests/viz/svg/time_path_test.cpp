// The picture of a step's time: what it holds, for any run, and that it stays as high as its rows.
#include "viz/svg/time_path.hpp"

#include <set>
#include <string>

#include "core/explain_time/time_words.hpp"
#include "tests/catch.hpp"
#include "tests/traces/export/random_run.hpp"
#include "viz/scene/cause_colours.hpp"

using namespace foreshard;
using namespace foreshard::viz;

namespace {

std::size_t times(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

std::string drawn(const Run& run, const TimeExplanation& e, const TimePathOptions& options = {}) {
  return draw_time_path(run, e, critical_path(run, e), options);
}

}  // namespace

TEST_CASE("the picture of a step's time names each cause with its sum, and is the same twice") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    INFO("seed " << seed);
    Run run = foreshard::test::RandomRun(seed, RunKind::planned).make();
    run.info.name = "a <run> & \"more\"";
    const auto e = explain_time(run);
    REQUIRE(e);
    const std::string svg = drawn(run, *e);
    CHECK(svg == drawn(run, *e));
    CHECK(svg.starts_with("<svg "));
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(svg.find("<run>") == std::string::npos);
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(times(svg, "<svg") == 1);
    CHECK(times(svg, "<text") == times(svg, "</text>"));
    const CauseTotals totals = cause_totals(*e);
    for (const IdleCause cause : kEnumValues<IdleCause>)
      CHECK((svg.find(std::string(title(cause)) + " ") != std::string::npos ||
             totals[static_cast<std::size_t>(cause)].parts == 0));
  }
}

TEST_CASE("each cause has a colour of its own, and the picture's legend has it") {
  std::set<std::string_view> colours;
  for (const IdleCause cause : kEnumValues<IdleCause>) CHECK(colours.insert(cause_colour(cause)).second);
  const Run run = foreshard::test::RandomRun(7, RunKind::planned).make();
  const auto e = explain_time(run);
  REQUIRE(e);
  const std::string svg = drawn(run, *e);
  const CauseTotals totals = cause_totals(*e);
  for (const IdleCause cause : kEnumValues<IdleCause>)
    if (totals[static_cast<std::size_t>(cause)].parts > 0) CHECK(svg.find(cause_colour(cause)) != std::string::npos);
}

TEST_CASE("a step of hundreds of stretches is a picture of sixty rows at most") {
  Run run;
  run.info.kind = RunKind::planned;
  run.units = {{"", {}}, {"a", {}}, {"b", {}}};
  run.phases = {{0, Recording::run, "forward", {0}, {1'000'000'000}}};
  std::int64_t at = 0;
  for (std::uint32_t i = 0; i < 300; ++i) {
    DeviceOpRecord op;
    op.stream = kComputeStream;
    op.unit = UnitId{1 + i % 2};
    op.issue = {i};
    op.start = {at};
    op.end = {at + 100'000 + 40'000 * (i % 7)};  // no two neighbours alike
    at = op.end.count + 1'000;
    run.device_ops.push_back(op);
  }
  StepRecord step;
  step.end = {10'000};
  step.device_end = Nanoseconds{at};
  run.steps = {step};
  const auto e = explain_time(run);
  REQUIRE(e);
  const std::string svg = drawn(run, *e, {900, Theme::dark});
  CHECK(svg.find("more stretches") != std::string::npos);
  CHECK(svg.size() < 200'000);
}
