// Remedies of a forecast of stacks of memory: simulated on the same lengths, ranked, equal on any number of threads.
#include "sim/forecast/forecast_remedies.hpp"

#include "tests/catch.hpp"
#include "tests/sim/forecast/hand_programs.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using namespace foreshard::sim::test;

namespace {

ForecastRequest request(unsigned threads, std::optional<Bytes> limit = {}) {
  ForecastRequest out{parse_distribution("uniform:100..300").value(), 200, {7, 8}, {process(8 * kGiB, limit)}};
  out.threads = threads;
  return out;
}

ForecastRemedies remedies_of(unsigned threads, std::optional<Bytes> limit = {}) {
  StackPrograms programs({300'000, 100'000, 500'000});
  ForecastRemedyRequest wanted;
  wanted.forecast = request(threads, limit);
  const auto seeds = run_forecast(programs, wanted.forecast);
  REQUIRE(seeds);
  wanted.before = seeds->at(worst_of(*seeds));
  wanted.memory = wanted.forecast.process.options.memory;
  auto found = find_forecast_remedies(programs, wanted);
  REQUIRE(found);
  return std::move(*found);
}

}  // namespace

TEST_CASE("seeds are repeatable, and equal on any number of threads", "[forecast]") {
  StackPrograms programs({300'000, 100'000});
  const auto one = run_forecast(programs, request(1));
  const auto many = run_forecast(programs, request(4));
  REQUIRE(one);
  REQUIRE(many);
  REQUIRE(one->size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK((*one)[i].seed == 7 + i);
    CHECK((*one)[i].peak_reserved() == (*many)[i].peak_reserved());
    CHECK((*one)[i].growth.size() == (*many)[i].growth.size());
  }
  CHECK((*one)[0].last_growth() != (*one)[1].last_growth());
}

TEST_CASE("remedies save what they say, best first", "[forecast]") {
  const ForecastRemedies one = remedies_of(1);
  const ForecastRemedies many = remedies_of(3);
  CHECK(one.tried == one.useful.size() + one.useless);
  REQUIRE(one.useful.size() == many.useful.size());
  REQUIRE_FALSE(one.useful.empty());
  Bytes last = 0;
  for (std::size_t i = 0; i < one.useful.size(); ++i) {
    const ForecastRemedy& remedy = one.useful[i];
    INFO(remedy.setting);
    CHECK(remedy.setting == many.useful[i].setting);
    CHECK(remedy.saving > 0);
    CHECK(remedy.outcome.peak_reserved() >= last);
    CHECK_FALSE(remedy.pytorch.empty());
    last = remedy.outcome.peak_reserved();
  }
  CHECK(one.useful.front().setting == "--alloc-conf expandable_segments:True");
}

TEST_CASE("under a limit garbage collection is tried, and living longer comes first", "[forecast]") {
  const ForecastRemedies found = remedies_of(2, 300 * kMiB);
  CHECK_FALSE(found.before.retries.empty());
  for (const ForecastRemedy& remedy : found.useful)
    if (!found.before.out_of_memory) CHECK_FALSE(remedy.outcome.out_of_memory);
}
