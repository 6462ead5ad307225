// Remedies of a forecast of stacks of memory: simulated on the same lengths, ranked, equal on any number of threads.
#include "sim/forecast/forecast_remedies.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/forecast/longest_alone.hpp"
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

ForecastRemedies remedies_of(unsigned threads, std::optional<Bytes> limit = {}, const std::string& alloc_conf = {},
                             std::uint32_t pad = 1, std::uint32_t empty_cache = 0) {
  StackPrograms programs({300'000, 100'000, 500'000});
  ForecastRemedyRequest wanted;
  wanted.forecast = request(threads, limit);
  wanted.forecast.process = {process(8 * kGiB, limit, alloc_conf), empty_cache};
  wanted.forecast.lengths = wanted.forecast.lengths.padded(pad);
  wanted.settings.alloc_conf = alloc_conf;
  wanted.pad = pad;
  const auto seeds = run_forecast(programs, wanted.forecast);
  REQUIRE(seeds);
  wanted.memory = wanted.forecast.process.options.memory;
  auto found = find_forecast_remedies(programs, wanted, *seeds);
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
  bool pads = false;  // the time of which nobody knows here: behind what costs none
  for (std::size_t i = 0; i < one.useful.size(); ++i) {
    const ForecastRemedy& remedy = one.useful[i];
    INFO(remedy.setting);
    if (remedy.more_tokens > 0 && !std::exchange(pads, true)) last = 0;
    CHECK((remedy.more_tokens > 0) == pads);
    CHECK(remedy.setting == many.useful[i].setting);
    CHECK(remedy.saving > 0);
    CHECK(remedy.over_all.peak_reserved >= last);
    CHECK_FALSE(remedy.pytorch.empty());
    last = remedy.over_all.peak_reserved;
  }
  CHECK(one.useful.front().setting == "--alloc-conf expandable_segments:True");
}

TEST_CASE("under a limit garbage collection is tried, and living longer comes first", "[forecast]") {
  const ForecastRemedies found = remedies_of(2, 300 * kMiB);
  CHECK(found.before.first_retry);
  for (const ForecastRemedy& remedy : found.useful) CHECK(remedy.over_all.out_of_memory <= found.before.out_of_memory);
}

TEST_CASE("nothing helps that gives segments back more often without saving the run", "[forecast]") {
  for (const Bytes limit : {300 * kMiB, 340 * kMiB, 400 * kMiB}) {
    const ForecastRemedies found = remedies_of(2, limit);
    std::int64_t retries = 0;
    bool pads = false;
    for (const ForecastRemedy& remedy : found.useful) {
      INFO(limit << ": " << remedy.setting);
      const SeedsOutcome& over = remedy.over_all;
      if (remedy.more_tokens > 0 && !std::exchange(pads, true)) retries = 0;
      if (found.before.out_of_memory > 0 || over.out_of_memory > 0) continue;
      CHECK(over.steps_giving_back <= found.before.steps_giving_back);
      CHECK(over.churn <= found.before.churn);
      CHECK(over.num_alloc_retries <= found.before.num_alloc_retries);
      CHECK(over.num_alloc_retries >= retries);  // the fewest come first
      retries = over.num_alloc_retries;
    }
  }
}

TEST_CASE("a change is simulated on all seeds, and what it does is the worst of each number", "[forecast]") {
  StackPrograms programs({300'000, 100'000, 500'000});
  ForecastRemedyRequest wanted;
  wanted.forecast = request(2);
  wanted.memory = wanted.forecast.process.options.memory;
  const auto seeds = run_forecast(programs, wanted.forecast);
  REQUIRE(seeds);
  const auto found = find_forecast_remedies(programs, wanted, *seeds);
  REQUIRE(found);
  REQUIRE_FALSE(found->useful.empty());
  CHECK(found->before.peak_reserved == std::max(seeds->at(0).peak_reserved(), seeds->at(1).peak_reserved()));
  for (const ForecastRemedy& remedy : found->useful) {
    if (!remedy.setting.starts_with("--alloc-conf")) continue;
    INFO(remedy.setting);
    CHECK_FALSE(remedy.alone);
    CHECK(remedy.over_all.seeds == 2);
    ForecastRequest again = wanted.forecast;
    again.process = {process(8 * kGiB, {}, remedy.setting.substr(std::string("--alloc-conf ").size()))};
    const auto ran = run_forecast(programs, again);
    REQUIRE(ran);
    CHECK(remedy.over_all.peak_reserved == outcome_of(*ran).peak_reserved);
    CHECK(remedy.saving == static_cast<std::int64_t>(found->before.peak_reserved - remedy.over_all.peak_reserved));
  }
}

TEST_CASE("of many seeds the changes that help most are simulated on all, others on one, and come last", "[forecast]") {
  StackPrograms programs({300'000, 100'000, 500'000});
  ForecastRemedyRequest wanted;
  wanted.forecast = request(2);
  wanted.forecast.steps = 60;
  wanted.forecast.seeds.resize(kSeedsForAll + 1);
  std::iota(wanted.forecast.seeds.begin(), wanted.forecast.seeds.end(), 1U);
  wanted.memory = wanted.forecast.process.options.memory;
  const auto seeds = run_forecast(programs, wanted.forecast);
  REQUIRE(seeds);
  const auto found = find_forecast_remedies(programs, wanted, *seeds);
  REQUIRE(found);
  std::size_t on_all = 0;
  bool alone = false;
  for (const ForecastRemedy& remedy : found->useful) {
    CHECK(remedy.over_all.seeds == (remedy.alone ? 1 : kSeedsForAll + 1));
    CHECK((remedy.alone || !alone));
    alone |= remedy.alone;
    if (!remedy.alone) ++on_all;
  }
  CHECK(on_all > 0);
  CHECK(on_all <= kRemediesForMany);
}

TEST_CASE("fewer seeds that run out of memory help, and one that does so earlier in place of another does not",
          "[forecast]") {
  SeedsOutcome before;
  before.seeds = 2;
  before.out_of_memory = 1;
  before.lives_until = 50;
  SeedsOutcome changed = before;
  CHECK_FALSE(helps(changed, before));
  changed.lives_until = 40;  // another seed, earlier
  CHECK_FALSE(helps(changed, before));
  changed.lives_until = 60;
  CHECK(helps(changed, before));
  changed.out_of_memory = 2;
  CHECK_FALSE(helps(changed, before));
  changed.out_of_memory = 0;
  changed.lives_until = SIZE_MAX;
  changed.num_alloc_retries = 9;
  CHECK(helps(changed, before));
}

TEST_CASE("a run that lives by retries is helped by fewer of them, not by less reserved memory", "[forecast]") {
  SeedsOutcome before;
  before.seeds = 1;
  before.num_alloc_retries = before.steps_giving_back = 5;
  before.peak_reserved = 10 * kGiB;
  SeedsOutcome changed = before;
  changed.peak_reserved = 9 * kGiB;
  CHECK_FALSE(helps(changed, before));
  changed.num_alloc_retries = 4;
  changed.peak_reserved = 11 * kGiB;
  CHECK(helps(changed, before));
  before.num_alloc_retries = before.steps_giving_back = 0;
  changed = before;
  changed.peak_reserved = 9 * kGiB;
  CHECK(helps(changed, before));
}

TEST_CASE("of seeds that live the one with the most retries fares worst, not the one that retries first",
          "[forecast]") {
  const auto retrying = [](std::size_t step, std::int32_t retries) {
    SeedForecast seed;
    RetryStep one;
    one.step = step;
    one.retries = retries;
    seed.retries.push_back(one);
    return seed;
  };
  std::vector<SeedForecast> seeds{retrying(4, 1), retrying(9, 131), retrying(7, 131)};
  CHECK(worst_of(seeds) == 2);
  seeds[0].out_of_memory = FailedStep{};
  CHECK(worst_of(seeds) == 0);
}

TEST_CASE("empty_cache behind a step gives segments back in it", "[forecast]") {
  const ForecastRemedies found = remedies_of(1, {}, {}, 1, 50);
  CHECK_FALSE(found.before.first_retry);
  CHECK(found.before.steps_giving_back == 4);  // of 200 steps
  CHECK(found.before.driver_frees > 0);
  CHECK(found.before.churn >= found.before.driver_frees);
  REQUIRE_FALSE(found.useful.empty());
  for (const ForecastRemedy& remedy : found.useful) {
    CHECK(remedy.setting.ends_with(" --empty-cache 50"));
    CHECK(remedy.pytorch.ends_with("if (step + 1) % 50 == 0: torch.cuda.empty_cache()"));
  }
}

TEST_CASE("a remedy names all that was simulated, the run's own options among it", "[forecast]") {
  const ForecastRemedies found = remedies_of(1, {}, "max_split_size_mb:64", 48);
  REQUIRE_FALSE(found.useful.empty());
  for (const ForecastRemedy& remedy : found.useful) {
    INFO(remedy.setting);
    CHECK(remedy.setting.ends_with(" --pad 48"));  // 64, 128 and 512 are no multiples of 48
    CHECK(remedy.pytorch.ends_with("pad_to_multiple_of=48)"));
    CHECK(remedy.setting.starts_with("--alloc-conf max_split_size_mb:"));
  }
  CHECK(joined_alloc_conf("", "a:1") == "a:1");
  CHECK(joined_alloc_conf("a:1", "b:2") == "a:1,b:2");
  CHECK(joined_alloc_conf("a:1,b:[4:1,>:2]", "a:2") == "b:[4:1,>:2],a:2");
  CHECK(joined_alloc_conf("b:[4:1,>:2],c:3", "b:8") == "c:3,b:8");
}

TEST_CASE("a length that fits alone is told from one that is too long", "[forecast]") {
  StackPrograms programs({900'000});
  ForecastRequest wanted = request(1, 200 * kMiB);
  wanted.lengths = parse_length_list("100\n150\n400\n120", "x").value();
  const auto seeds = run_forecast(programs, wanted);
  REQUIRE(seeds);
  const SeedForecast& failed = seeds->front();
  REQUIRE(failed.out_of_memory);
  CHECK(failed.out_of_memory->step == 2);
  CHECK_FALSE(failed.retries.back().served);
  CHECK(failed.growth.back().step <= 2);
  const auto alone = find_longest_alone(programs, wanted, failed);
  REQUIRE(alone);
  CHECK(alone->length == 400);
  CHECK_FALSE(alone->fits);  // 360 MB
  CHECK(alone->longest == 150U);
}

TEST_CASE("a length that earlier ones leave no room for fits alone", "[forecast]") {
  // Of each step a block stays until the next; of a longer one it is cut from the segment of the shorter one's stack.
  class Pinned final : public StackPrograms {
   public:
    Pinned() : StackPrograms({}) {
      for (const std::uint32_t length : {100U, 150U}) programs_[length] = {step(length, true), step(length, false)};
    }
    Result<void> prepare(const std::vector<std::uint32_t>&, unsigned,
                         const std::function<void(std::size_t, std::size_t)>&) override {
      return {};
    }
    [[nodiscard]] const LengthPrograms& at(std::uint32_t length) const override { return programs_.at(length); }

   private:
    static AllocationProgram step(std::uint32_t length, bool first) {
      HandProgram program;
      if (!first) program.free_carried(0);
      program.carry(program.malloc(Bytes{200'000} * length));
      program.free(program.malloc(Bytes{900'000} * length));
      return program.program();
    }
    std::map<std::uint32_t, LengthPrograms> programs_;
  };
  Pinned programs;
  ForecastRequest wanted = request(1, 200 * kMiB);
  wanted.lengths = parse_length_list("100\n150", "x").value();
  const auto seeds = run_forecast(programs, wanted);
  REQUIRE(seeds);
  REQUIRE(seeds->front().out_of_memory);
  CHECK(seeds->front().out_of_memory->step == 1);
  const auto alone = find_longest_alone(programs, wanted, seeds->front());
  REQUIRE(alone);
  CHECK(alone->fits);
  CHECK(alone->longest == 150U);
}

TEST_CASE("out of memory before the first step is no step's", "[forecast]") {
  class LargeSetup final : public StackPrograms {
   public:
    LargeSetup() : StackPrograms({1000}) { start_.setup = stack_of({kGiB}); }
    [[nodiscard]] const ProcessStart& start() const override { return start_; }

   private:
    ProcessStart start_;
  };
  LargeSetup programs;
  const auto seeds = run_forecast(programs, request(1, 200 * kMiB));
  REQUIRE(seeds);
  REQUIRE(seeds->front().out_of_memory);
  CHECK(seeds->front().out_of_memory->before_first);
  CHECK(seeds->front().steps.empty());
}

TEST_CASE("other settings are tried where the process dies, cheapest first, and of batches the largest that lives") {
  StackPrograms programs({300'000, 100'000, 500'000});
  ForecastRemedyRequest wanted;
  wanted.forecast = request(2, 200 * kMiB);
  wanted.settings.gpus = 2;
  wanted.settings.batch = 8;
  wanted.memory = wanted.forecast.process.options.memory;
  const auto seeds = run_forecast(programs, wanted.forecast);
  REQUIRE(seeds);
  REQUIRE(seeds->at(worst_of(*seeds)).out_of_memory);
  wanted.at_settings = [&](const Settings& settings) -> Result<SettingsForecast> {
    if (settings.offload) return fail(ErrorKind::usage, "not here");
    const bool halves = settings.checkpoint != Checkpoint::none;
    const Bytes share = 8 / *settings.batch * (halves ? 2 : 1);
    std::vector<Bytes> sizes{300'000 / share, 100'000 / share, 500'000 / share};
    return SettingsForecast{std::make_unique<StackPrograms>(std::move(sizes)), wanted.memory, {"an estimate"}};
  };
  const auto found = find_forecast_remedies(programs, wanted, *seeds);
  REQUIRE(found);
  const auto of = [&](const std::string& setting) {
    return std::find_if(found->useful.begin(), found->useful.end(),
                        [&](const ForecastRemedy& one) { return one.setting == setting; });
  };
  const auto checkpoint = of("--checkpoint blocks");
  const auto batch = of("--batch 4");
  REQUIRE(checkpoint != found->useful.end());
  REQUIRE(batch != found->useful.end());
  CHECK(checkpoint < batch);
  CHECK(checkpoint->price == RemedyPrice::program);
  CHECK(batch->price == RemedyPrice::batch);
  CHECK(checkpoint->reason.ends_with("; an estimate"));
  CHECK_FALSE(checkpoint->outcome.out_of_memory);
  CHECK(batch->more_tokens == -0.5);
  CHECK(of("--batch 2") == found->useful.end());
  CHECK(std::any_of(found->impossible.begin(), found->impossible.end(),
                    [](const std::string& text) { return text == "--offload: not here"; }));
}
