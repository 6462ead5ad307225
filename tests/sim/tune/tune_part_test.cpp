// A search whose batches several tasks share finds what one finds, and each share comes back from its file.
#include "sim/tune/tune_part.hpp"

#include <map>

#include "sim/tune/tune.hpp"
#include "tests/catch.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using foreshard::sim::test::base;
using foreshard::sim::test::machine;

namespace {

/// Texts of shares by batch and part, as a folder of several tasks has them.
using Files = std::map<std::pair<std::size_t, std::uint32_t>, std::string>;

enum class Longest : std::uint8_t { compute, host };

Workload workload_of(Longest longest) {
  if (longest == Longest::compute) return foreshard::test::timed_workload(base(), 6, 3.0);
  Workload w = foreshard::test::timed_workload(base(), 6);
  for (Program& program : w.steps)
    for (Op& op : program.ops) op.host_before = {400'000};
  return w;
}

TuneResult tuned(const ShareBatch& share, Longest longest = Longest::compute) {
  OneWorkload source(std::make_shared<const Workload>(workload_of(longest)));
  TuneRequest request;
  request.start = base();
  request.start.unshard_async = true;
  request.share = share;
  auto found = tune(source, machine(), request);
  INFO((found ? std::string() : found.error().text()));
  REQUIRE(found);
  return std::move(*found);
}

void take(const std::string& text, const TuneBatch& batch, const Part& part, std::vector<SweepPoint>& points) {
  const auto read = parse_tune_part(text, "batch.json");
  INFO((read ? std::string() : read.error().text()));
  REQUIRE(read);
  REQUIRE(read->part == part);
  REQUIRE(read->fingerprint == batch_fingerprint("xxh3:0", batch));
  REQUIRE(read->found.size() == points.size());
  for (std::size_t i = 0; i < points.size(); ++i)
    if (read->found[i]) points[i] = *read->found[i];
}

/// Each of so many tasks simulates its share, and all go on with what the files have.
ShareBatch among(std::uint32_t tasks, Files& files) {
  return [tasks, &files](const TuneBatch& batch, const SimulatePlaces& simulate) -> Result<std::vector<SweepPoint>> {
    std::vector<SweepPoint> all(batch.settings.size());
    for (std::uint32_t number = 0; number < tasks; ++number) {
      const Part part{number, tasks};
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i < all.size(); ++i)
        if (part.has(i)) places.push_back(i);
      std::vector<SweepPoint> own(all.size());
      const std::vector<SweepPoint> found = simulate(places);
      for (std::size_t i = 0; i < places.size(); ++i) own[places[i]] = found[i];
      std::string& text = files[{batch.number, number}];
      text = tune_part_text(part, batch_fingerprint("xxh3:0", batch), own);
      take(text, batch, part, all);
    }
    return all;
  };
}

void check_equal(const TuneResult& a, const TuneResult& b) {
  REQUIRE(a.points.size() == b.points.size());
  for (std::size_t i = 0; i < a.points.size(); ++i) {
    const SweepPoint& p = a.points[i].point;
    const SweepPoint& q = b.points[i].point;
    CHECK(p.settings == q.settings);
    CHECK(p.state == q.state);
    CHECK(p.step_ms == q.step_ms);
    CHECK(p.peaks == q.peaks);
    CHECK(p.most_reserved == q.most_reserved);
    CHECK(p.floor.ms() == q.floor.ms());
    CHECK(p.not_valid == q.not_valid);
    CHECK(p.not_measured == q.not_measured);
    CHECK(p.difference == q.difference);
    CHECK(a.points[i].phrase == b.points[i].phrase);
  }
  CHECK(a.pruned == b.pruned);
  CHECK(a.front == b.front);
  CHECK(a.bound_ms == b.bound_ms);
  CHECK(a.least.has_value() == b.least.has_value());
  if (a.least && b.least) {
    CHECK(a.least->point.settings == b.least->point.settings);
    CHECK(a.least->point.most_reserved == b.least->point.most_reserved);
  }
  REQUIRE(a.best.has_value() == b.best.has_value());
  if (!a.best) return;
  CHECK(a.best->point.settings == b.best->point.settings);
  CHECK(a.best->phrase == b.best->phrase);
}

}  // namespace

TEST_CASE("a search is the same on any number of tasks, and from their files alone") {
  const TuneResult one = tuned({});
  for (const std::uint32_t tasks : {1U, 3U, 8U}) {
    INFO("tasks: " << tasks);
    Files files;
    check_equal(tuned(among(tasks, files)), one);
    const ShareBatch from_files = [&](const TuneBatch& batch, const SimulatePlaces&) {
      std::vector<SweepPoint> all(batch.settings.size());
      for (std::uint32_t number = 0; number < tasks; ++number)
        take(files.at({batch.number, number}), batch, {number, tasks}, all);
      return Result<std::vector<SweepPoint>>(std::move(all));
    };
    check_equal(tuned(from_files), one);
  }
}

TEST_CASE("where the host takes longest a graph is searched, by whoever answers: tasks find what one process finds") {
  const TuneResult one = tuned({}, Longest::host);
  REQUIRE(one.best);
  const SweepPoint& best = one.best->point;
  REQUIRE(best.floor.host_ms == best.floor.ms());
  REQUIRE(one.with_cuda_graph);
  Settings best_in_graph = best.settings;
  best_in_graph.cuda_graph = CudaGraph{};
  best_in_graph.post_optimizer_event = false;
  CHECK(one.with_cuda_graph->point.settings != best_in_graph);  // what only a search finds
  CHECK(one.with_cuda_graph->point.step_ms < best.step_ms);
  Files files;
  const TuneResult shared = tuned(among(3, files), Longest::host);
  check_equal(shared, one);
  REQUIRE(shared.with_cuda_graph);
  CHECK(shared.with_cuda_graph->point.settings == one.with_cuda_graph->point.settings);
}

TEST_CASE("a task that cannot have the others' shares ends the search with its reason") {
  OneWorkload source(std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 6, 3.0)));
  TuneRequest request;
  request.start = base();
  request.share = [](const TuneBatch& batch, const SimulatePlaces& simulate) -> Result<std::vector<SweepPoint>> {
    if (batch.number == 2) return fail(ErrorKind::input, "is lost", "part-1-of-2");
    std::vector<std::size_t> places(batch.settings.size());
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
    return simulate(places);
  };
  const auto found = tune(source, machine(), request);
  REQUIRE_FALSE(found);
  CHECK(found.error().where == "part-1-of-2");
}

TEST_CASE("one of the tasks plans nothing whole") {
  OneWorkload source(std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 6, 3.0)));
  TuneRequest request;
  request.start = base();
  request.points_alone = true;
  const auto found = tune(source, machine(), request);
  REQUIRE(found);
  CHECK(found->points.size() == found->tried);
  CHECK_FALSE(found->start.plan);
  CHECK_FALSE(found->best);
}

TEST_CASE("each batch of each search has a fingerprint of its own") {
  const Settings a = base();
  Settings b = a;
  b.unshard_async = !b.unshard_async;
  const std::string own = batch_fingerprint("xxh3:0", {1, {&a, &b}});
  CHECK(own == batch_fingerprint("xxh3:0", {1, {&a, &b}}));
  CHECK(own != batch_fingerprint("xxh3:1", {1, {&a, &b}}));
  CHECK(own != batch_fingerprint("xxh3:0", {2, {&a, &b}}));
  CHECK(own != batch_fingerprint("xxh3:0", {1, {&b, &a}}));
  CHECK(own != batch_fingerprint("xxh3:0", {1, {&a}}));
}

TEST_CASE("a share that is damaged, or larger than a batch, is refused") {
  const std::string whole = tune_part_text({1, 3}, "xxh3:0", std::vector<SweepPoint>(7));
  CHECK(parse_tune_part(whole, "batch.json"));
  for (std::size_t length = 0; length + 2 < whole.size(); length += 7)
    CHECK_FALSE(parse_tune_part(whole.substr(0, length), "batch.json"));
  CHECK_FALSE(parse_tune_part(tune_part_text({1, 3}, "xxh3:0", std::vector<SweepPoint>(kBatch + 1)), "batch.json"));
}

TEST_CASE("a search that nothing fits for is the same on any number of threads and tasks") {
  const auto nothing_fits = [](unsigned threads, ShareBatch share) {
    OneWorkload source(std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 6, 3.0)));
    TuneRequest request;
    request.start = base();
    request.memory_limit = 2 * kMiB;
    request.threads = threads;
    request.share = std::move(share);
    auto found = tune(source, machine(), request);
    REQUIRE(found);
    REQUIRE_FALSE(found->best);
    return std::move(*found);
  };
  const TuneResult one = nothing_fits(1, {});
  check_equal(nothing_fits(3, {}), one);
  Files files;
  check_equal(nothing_fits(1, among(3, files)), one);
}

TEST_CASE("what leaves too little headroom ran, and takes what it took") {
  OneWorkload source(std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 6, 3.0)));
  TuneRequest request;
  request.start = base();
  const auto all = tune(source, machine(), request);
  REQUIRE(all);
  request.memory_limit = all->start.point.most_reserved;
  request.headroom = *request.memory_limit - kMiB;
  const auto none = tune(source, machine(), request);
  REQUIRE(none);
  REQUIRE_FALSE(none->best);
  REQUIRE(none->least);
  std::size_t ran = 0;
  for (const TunedPoint& one : none->points) {
    if (one.point.state != SweepPoint::State::ran) continue;
    ++ran;
    CHECK(none->least->point.most_reserved <= one.point.most_reserved);
  }
  CHECK(ran > 1);
  CHECK(none->least->point.most_reserved < none->start.point.most_reserved);
}

TEST_CASE("where nothing fits, the least memory that was found is what that point takes with enough of it") {
  OneWorkload source(std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 6, 3.0)));
  TuneRequest request;
  request.start = base();
  request.allowed.set(MoveFamily::offload, false);  // which a recording has no times of
  request.memory_limit = 2 * kMiB;
  const auto none = tune(source, machine(), request);
  REQUIRE(none);
  CHECK_FALSE(none->best);
  REQUIRE(none->least);
  CHECK(none->least->point.most_reserved > none->most_reserved);
  REQUIRE(none->least->plan);
  request.start = none->least->point.settings;
  request.memory_limit = none->least->point.most_reserved;
  request.points = 1;
  const auto fits = tune(source, machine(), request);
  REQUIRE(fits);
  CHECK(fits->best);
  CHECK_FALSE(fits->least);
}
