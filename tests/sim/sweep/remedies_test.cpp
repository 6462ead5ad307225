// Remedies of a small plan: simulated as plan does, ranked, counted; and its own run explained.
#include "sim/sweep/remedies.hpp"

#include <algorithm>

#include "core/explain/explanation.hpp"
#include "sim/predict/predict.hpp"
#include "sim/sweep/offloaded.hpp"
#include "tests/catch.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using foreshard::sim::test::base;
using foreshard::sim::test::machine;

namespace {

Settings recorded() {
  Settings settings = base();
  settings.unshard_async = true;
  settings.forward_prefetch = settings.backward_prefetch = 1;
  settings.release = Release::record_stream;
  return settings;
}

std::shared_ptr<const Workload> workload() {
  return std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 4, 3.0));
}

Remedies remedies_of(const Settings& settings, unsigned threads, std::optional<Bytes> limit = std::nullopt) {
  OneWorkload source(workload());
  auto found = find_remedies(source, machine(), {.settings = settings, .memory_limit = limit, .threads = threads});
  INFO((found ? std::string() : found.error().text()));
  REQUIRE(found);
  return std::move(*found);
}

}  // namespace

TEST_CASE("what CPU offload keeps in the host's memory: shards, gradients and the optimizer's states") {
  Workload w;
  w.units = {{"", {{"weight", {10, 4}}, {"frozen", {8}, DType::bfloat16, false}}}};
  Settings settings;
  settings.gpus = 4;
  // Three rows of ten, padded, and their gradient; two moments of the three; of what is frozen two elements.
  CHECK(offloaded_bytes(w, settings) == 2 * 3 * 4 * 4 + 2 * 3 * 4 * 4 + 2 * 2);
  settings.optimizer = Optimizer::sgd;
  CHECK(offloaded_bytes(w, settings) == 2 * 3 * 4 * 4 + 2 * 2);
}

TEST_CASE("remedies are what plan says, by what they are worth, equal on any number of threads", "[remedies]") {
  const Remedies one = remedies_of(recorded(), 1);
  const Remedies many = remedies_of(recorded(), 4);
  CHECK(one.tried == one.useful.size() + one.useless + one.impossible.size());
  REQUIRE(one.useful.size() == many.useful.size());
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < one.useful.size(); ++i) {
    const Remedy& remedy = one.useful[i];
    INFO(remedy.setting);
    CHECK(remedy.setting == many.useful[i].setting);
    CHECK(remedy.peaks == many.useful[i].peaks);
    CHECK(remedy.saving > 0);
    CHECK(remedy.worth() <= last);  // one that costs time counts half
    last = remedy.worth();
    CHECK(remedy.worth() == (remedy.costs ? remedy.saving / 2 : remedy.saving));
    const auto p = predict(*workload(), machine(), {remedy.settings, {}, 4});
    REQUIRE(p);
    CHECK(p->peaks == remedy.peaks);
    CHECK(p->step_ms == remedy.step_ms);
    CHECK(remedy.saving ==
          static_cast<std::int64_t>(one.before.reserved) - static_cast<std::int64_t>(p->peaks.reserved));
  }
}

TEST_CASE("a plan explains itself: peaks and steps are those that it reports", "[remedies][explain]") {
  for (const Settings& settings : {base(), recorded()}) {
    const auto p = predict(*workload(), machine(), {settings, {}, 4});
    REQUIRE(p);
    const auto e = explain(p->run, {});
    REQUIRE(e);
    CHECK(e->odd_events == 0);
    CHECK(e->peaks == p->peaks);
    REQUIRE(e->steps.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(e->steps[i].peaks == p->run.steps[i].peaks);
    for (const HeldBlock& block : e->pending_peak.pending) {
      CHECK(block.waits_for_name == "all-gather");
      CHECK(block.waits_for.valid());
      CHECK(block.op_end.has_value());
    }
    CHECK((e->pending_free_peak > 0) == (settings.release == Release::record_stream));
  }
}

TEST_CASE("a plan that runs out of memory says what failed, and which changes fit", "[remedies][oom]") {
  const auto enough = predict(*workload(), machine(), {base(), {}, 4});
  REQUIRE(enough);
  const Bytes limit = enough->peaks.reserved - 2 * kMiB;
  const auto p = predict(*workload(), machine(), {base(), limit, 4});
  REQUIRE(p);
  REQUIRE(p->out_of_memory);
  const auto e = explain(p->run, {});
  REQUIRE(e);
  REQUIRE_FALSE(e->failures.empty());
  const FailedRequest& failed = e->failures.front();
  CHECK(failed.size >= p->out_of_memory->requested);
  CHECK(failed.segment == p->out_of_memory->tried);
  CHECK(failed.parts.reserved() == p->out_of_memory->reserved);
  CHECK(failed.parts.allocated() == p->out_of_memory->allocated);
  CHECK_FALSE(failed.why.empty());
  CHECK_FALSE(failed.remedies.empty());
  const Remedies remedies = remedies_of(base(), 2, limit);
  CHECK(remedies.out_of_memory);
  for (const Remedy& remedy : remedies.useful) CHECK(remedy.peaks.reserved <= limit);
  const auto asks_more = [](const Remedy& one) { return one.settings.nodes > base().nodes || one.settings.offload; };
  CHECK(std::is_partitioned(remedies.useful.begin(), remedies.useful.end(),
                            [&](const Remedy& one) { return !asks_more(one); }));
  for (std::size_t i = 1; i < remedies.useful.size(); ++i) {
    const Remedy &a = remedies.useful[i - 1], &b = remedies.useful[i];
    if (asks_more(a) != asks_more(b)) continue;
    CHECK((!b.has_time || a.has_time));
    if (a.has_time && b.has_time && a.settings.seq == b.settings.seq) CHECK(a.retries_each_step <= b.retries_each_step);
  }
}

TEST_CASE("the remedy next to a cause is the simplest of the best", "[remedies]") {
  Remedies remedies;
  const auto add = [&](const char* setting, std::int64_t saving, std::vector<CauseKind> cures) {
    Remedy remedy;
    remedy.setting = setting;
    remedy.saving = saving;
    remedy.cures = std::move(cures);
    remedies.useful.push_back(remedy);
  };
  add("--checkpoint blocks", 200, {});
  add("--release stash --alloc-conf x", 102, {CauseKind::record_stream, CauseKind::hard_fragmentation});
  add("--release stash", 100, {CauseKind::record_stream});
  add("--gather-alloc compute", 50, {CauseKind::record_stream});
  CHECK(best_against(remedies, CauseKind::record_stream)->setting == "--release stash");
  CHECK(best_against(remedies, CauseKind::hard_fragmentation)->setting == "--release stash --alloc-conf x");
  CHECK(best_against(remedies, CauseKind::private_pool_idle) == nullptr);
}
