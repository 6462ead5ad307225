// Remedies for time of a small plan: what plan says, sorted into faster, equal, slower and not valid.
#include "sim/sweep/time_remedies.hpp"

#include <algorithm>
#include <set>

#include "sim/predict/predict.hpp"
#include "sim/sweep/time_candidates.hpp"
#include "tests/catch.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using foreshard::sim::test::base;
using foreshard::sim::test::machine;

namespace {

std::shared_ptr<const Workload> timed() {
  return std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 4, 3.0));
}

TimeRemedies time_remedies_of(const Settings& settings, unsigned threads) {
  OneWorkload source(timed());
  auto found = find_time_remedies(source, machine(), {.settings = settings, .threads = threads});
  INFO((found ? std::string() : found.error().text()));
  REQUIRE(found);
  return std::move(*found);
}

}  // namespace

TEST_CASE("time remedies are what plan says, most time saved first, equal on any number of threads",
          "[time_remedies]") {
  Settings settings = base();
  settings.unshard_async = true;  // without prefetch lists nothing overlaps
  const TimeRemedies one = time_remedies_of(settings, 1);
  const TimeRemedies many = time_remedies_of(settings, 4);
  CHECK(one.tried == one.faster.size() + one.not_valid.size() + one.no_difference.size() + one.slower.size() +
                         one.impossible.size());
  REQUIRE(one.faster.size() == many.faster.size());
  REQUIRE_FALSE(one.faster.empty());
  double last = one.faster.front().saved_ms;
  for (std::size_t i = 0; i < one.faster.size(); ++i) {
    const TimeRemedy& remedy = one.faster[i];
    INFO(remedy.setting);
    CHECK(remedy.setting == many.faster[i].setting);
    CHECK(remedy.step_ms == many.faster[i].step_ms);
    CHECK(remedy.saved_ms >= one.step_ms * one.same);
    CHECK(remedy.saved_ms <= last);
    CHECK_FALSE(remedy.pytorch.empty());
    last = remedy.saved_ms;
    const auto p = predict(*timed(), machine(), {remedy.settings, {}, 4});
    REQUIRE(p);
    CHECK(p->step_ms == remedy.step_ms);
    CHECK(p->peaks == remedy.peaks);
  }
  for (const TimeRemedy& remedy : one.no_difference) {
    const auto p = predict(*timed(), machine(), {remedy.settings, {}, 4});
    REQUIRE(p);
    CHECK(std::abs(remedy.saved_ms) < one.step_ms * std::max(one.same, p->difference));
  }
  for (const TimeRemedy& remedy : one.not_valid) CHECK_FALSE(remedy.not_valid.empty());
}

TEST_CASE("what is against the run's own settings is said of them, and of no change", "[time_remedies]") {
  Settings settings = base();
  settings.all_gather = Transport::low_contention;  // measured on no machine
  const TimeRemedies found = time_remedies_of(settings, 2);
  const auto p = predict(*timed(), machine(), {settings, {}, 4});
  REQUIRE(p);
  CHECK(found.own_not_valid == p->not_valid);
  REQUIRE_FALSE(found.own_not_valid.empty());
  for (const auto* remedies : {&found.faster, &found.not_valid, &found.no_difference, &found.slower})
    for (const TimeRemedy& remedy : *remedies)
      for (const std::string& why : remedy.not_valid)
        CHECK(std::find(found.own_not_valid.begin(), found.own_not_valid.end(), why) == found.own_not_valid.end());
}

TEST_CASE("time candidates differ from the run and from one another, and fit it", "[time_remedies]") {
  for (const bool several_nodes : {false, true}) {
    Settings settings = base();
    settings.reduce_dtype = DType::float32;
    if (several_nodes) settings.nodes = 2;
    std::set<std::string> options;
    for (const TimeCandidate& one : time_candidates(settings)) {
      INFO(one.candidate.setting);
      CHECK(options.insert(one.candidate.setting).second);
      Settings changed = settings;
      one.change(changed);
      CHECK(changed == one.candidate.settings);
      CHECK_FALSE(changed == settings);
    }
    CHECK(options.contains("--reduce-dtype bfloat16"));
    CHECK(options.contains("--all-gather copy-engine"));
    CHECK(options.contains("--replicate 2") == several_nodes);
  }
  Settings tuned = base();
  tuned.post_optimizer_event = true;
  for (const TimeCandidate& one : time_candidates(tuned))
    CHECK(one.candidate.setting.find("post-optimizer-event") == std::string::npos);
}

TEST_CASE("a workload without times has no remedies for time", "[time_remedies]") {
  Workload untimed = foreshard::test::timed_workload(base(), 2);
  untimed.has_timing = false;
  OneWorkload source(std::make_shared<const Workload>(std::move(untimed)));
  CHECK_FALSE(find_time_remedies(source, machine(), {.settings = base(), .threads = 1}));
}
