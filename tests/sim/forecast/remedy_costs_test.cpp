// What remedies save and cost, which come first, and what is left out of a run of many lengths.
#include <algorithm>
#include <set>

#include "sim/forecast/forecast_remedies.hpp"
#include "sim/forecast/longest_alone.hpp"
#include "tests/catch.hpp"
#include "tests/sim/forecast/hand_programs.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using namespace foreshard::sim::test;

namespace {

/// Stacks whose programs cost as a model's do; counts them.
class CostlyPrograms final : public StackPrograms {
 public:
  using StackPrograms::prepare;
  using StackPrograms::StackPrograms;
  Result<void> prepare(const std::vector<std::uint32_t>& lengths, unsigned threads,
                       const std::function<void(std::size_t, std::size_t)>& on_made) override {
    made_.insert(lengths.begin(), lengths.end());
    return StackPrograms::prepare(lengths, threads, on_made);
  }
  [[nodiscard]] bool costs_to_prepare() const override { return true; }
  [[nodiscard]] const std::set<std::uint32_t>& made() const { return made_; }

 private:
  std::set<std::uint32_t> made_;
};

constexpr Nanoseconds kCall{11'000'000};  // a segment that goes back, and the one that comes for it: 22 ms
constexpr double kRetryMs = 22;

/// One retry of 200 steps: two lengths that do not fit side by side, and the shorter one comes once.
ForecastRemedyRequest one_retry() {
  std::string list = "100\n";
  for (int step = 1; step < 200; ++step) list += "150\n";
  ForecastRemedyRequest wanted;
  wanted.forecast = {parse_length_list(list, "x").value(), 200, {7}, {process(8 * kGiB, 200 * kMiB)}};
  wanted.forecast.process.options.calls.free = kCall;
  wanted.forecast.process.options.calls.malloc = kCall;
  wanted.settings.gpus = 2;
  wanted.settings.batch = 8;
  wanted.memory = wanted.forecast.process.options.memory;
  return wanted;
}

/// Half as large as the run's own with any other settings.
void try_settings(ForecastRemedyRequest& wanted, Bytes own) {
  wanted.at_settings = [&wanted, own](const Settings&) -> Result<SettingsForecast> {
    return SettingsForecast{std::make_unique<StackPrograms>(std::vector<Bytes>{own / 2}), wanted.memory, {}};
  };
}

}  // namespace

TEST_CASE("what costs more time than the retries that it saves is not recommended", "[forecast]") {
  constexpr Bytes kOwn = 900'000;
  StackPrograms programs({kOwn});
  ForecastRemedyRequest wanted = one_retry();
  try_settings(wanted, kOwn);
  const auto seeds = run_forecast(programs, wanted.forecast);
  REQUIRE(seeds);
  REQUIRE_FALSE(seeds->front().out_of_memory);
  REQUIRE(seeds->front().num_alloc_retries() == 1);
  const auto is = [](const char* setting) {
    return [setting](const ForecastRemedy& one) { return one.setting == setting; };
  };
  wanted.step_ms = [](const Settings& settings, std::uint32_t length) -> std::optional<double> {
    CHECK((length == 100 || length == 150));  // each of the run's, one step and 199
    if (settings.optimizer != Optimizer::adam_fused && settings.offload) return length == 100 ? 300 : 501;
    if (settings.optimizer == Optimizer::adam_fused) return 50;
    return settings.checkpoint != Checkpoint::none ? 100.1 : 100;
  };
  const auto found = find_forecast_remedies(programs, wanted, *seeds);
  REQUIRE(found);
  const auto offload = std::ranges::find_if(found->too_dear, is("--offload"));
  REQUIRE(offload != found->too_dear.end());
  CHECK(offload->retries_less == 1);
  CHECK(*offload->step_ms_more == Approx((300 + 199 * 501) / 200.0 - 100));
  CHECK(offload->net_ms == Approx(300 + 199 * 501 - 200 * 100 - kRetryMs));
  CHECK(std::ranges::none_of(found->useful, is("--offload")));
  // 0.1 ms a step is less than a retry, in 200 of them.
  const auto checkpoint = std::ranges::find_if(found->useful, is("--checkpoint blocks"));
  REQUIRE(checkpoint != found->useful.end());
  CHECK(checkpoint->net_ms == Approx(0.1 * 200 - kRetryMs));
  // One retry is all that can be saved: a shorter step is not counted.
  CHECK(std::ranges::any_of(found->useful, is("--optimizer adam-fused")));
  for (const ForecastRemedy& one : found->useful) CHECK(one.net_ms >= -kRetryMs);
  for (std::size_t i = 1; i < found->useful.size(); ++i)
    if (found->useful[i].price != RemedyPrice::batch) CHECK(found->useful[i - 1].net_ms <= found->useful[i].net_ms);
}

TEST_CASE("of a run that dies what lets it live comes first, the cheapest of it before the rest", "[forecast]") {
  constexpr Bytes kOwn = 900'000;
  StackPrograms programs({kOwn});
  ForecastRemedyRequest wanted = one_retry();
  wanted.forecast.process = {process(8 * kGiB, 100 * kMiB)};
  wanted.memory = wanted.forecast.process.options.memory;
  try_settings(wanted, kOwn);
  wanted.step_ms = [](const Settings& settings, std::uint32_t) -> std::optional<double> {
    return settings.checkpoint != Checkpoint::none ? 130 : settings.offload ? 500 : 100;
  };
  const auto seeds = run_forecast(programs, wanted.forecast);
  REQUIRE(seeds);
  REQUIRE(seeds->front().out_of_memory);
  const auto found = find_forecast_remedies(programs, wanted, *seeds);
  REQUIRE(found);
  CHECK(found->too_dear.empty());
  const auto place = [&](const char* setting) {
    const auto at = std::ranges::find(found->useful, setting, &ForecastRemedy::setting);
    REQUIRE(at != found->useful.end());
    CHECK(at->steps_more == 200 - seeds->front().lives_until());
    return at;
  };
  CHECK(place("--checkpoint blocks") < place("--offload"));
}

TEST_CASE("programs that cost are made of the lengths alone that a process lives to", "[forecast]") {
  CostlyPrograms programs({900'000});
  ForecastRequest wanted{parse_distribution("uniform:100..3000").value(), 5000, {7}, {process(8 * kGiB, 200 * kMiB)}};
  const auto seeds = run_forecast(programs, wanted);
  REQUIRE(seeds);
  REQUIRE(seeds->front().out_of_memory);
  CHECK(programs.made().size() <= 65);  // a window, and the longest of all, which is set up for
  CHECK(*programs.made().rbegin() == wanted.lengths.distinct(7, 5000).back());
  StackPrograms at_once({900'000});
  const auto same = run_forecast(at_once, wanted);
  REQUIRE(same);
  CHECK(same->front().lives_until() == seeds->front().lives_until());
  CHECK(same->front().peak_reserved() == seeds->front().peak_reserved());
}

TEST_CASE("of a run of many lengths changes are tried on its first steps, and the best run whole", "[forecast]") {
  CostlyPrograms programs({300'000, 100'000, 500'000});
  ForecastRemedyRequest wanted;
  wanted.forecast = {parse_distribution("uniform:100..2000").value(), 3000, {7, 8}, {process(8 * kGiB)}};
  wanted.memory = wanted.forecast.process.options.memory;
  const auto seeds = run_forecast(programs, wanted.forecast);
  REQUIRE(seeds);
  std::size_t last = 0;
  wanted.on_progress = [&](std::size_t done, std::size_t all) {
    CHECK(done <= all);
    last = done;
  };
  const auto found = find_forecast_remedies(programs, wanted, *seeds);
  REQUIRE(found);
  CHECK(last > 0);
  CHECK(found->steps_tried == kTriedSteps);
  std::size_t whole = 0;
  for (const ForecastRemedy& remedy : found->useful) {
    INFO(remedy.setting);
    CHECK(remedy.outcome.steps.size() == (remedy.alone ? kTriedSteps : 3000));
    CHECK(remedy.over_all.seeds == (remedy.alone ? 1 : 2));
    if (!remedy.alone) ++whole;
  }
  CHECK(whole > 0);
  CHECK(whole <= kRemediesForLengths);
}

TEST_CASE("steps of one length alone are as many as ran, and their retries are told", "[forecast]") {
  StackPrograms programs({900'000, 300'000});
  ForecastRequest wanted{
      parse_length_list("100\n100\n100\n100\n100\n100\n400", "x").value(), 7, {7}, {process(8 * kGiB, 200 * kMiB)}};
  const auto seeds = run_forecast(programs, wanted);
  REQUIRE(seeds);
  REQUIRE(seeds->front().out_of_memory);
  const auto alone = find_longest_alone(programs, wanted, seeds->front());
  REQUIRE(alone);
  CHECK(alone->steps == 7);
  CHECK_FALSE(alone->fits);
  CHECK(alone->longest == 100U);
}
