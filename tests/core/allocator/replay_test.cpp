// The replay: what the allocator itself records it replays without a difference, and errors are seen.
#include "core/allocator/replay.hpp"

#include <rapidcheck.h>

#include "tests/catch.hpp"
#include "tests/core/allocator/random_program.hpp"

namespace foreshard {
namespace {

using test::Bench;
using test::ProgramOptions;
using test::RandomProgram;

bool same(const Statistic& a, const Statistic& b) {
  return a.current == b.current && a.peak == b.peak && a.allocated == b.allocated && a.freed == b.freed;
}
bool same(const StatisticGroup& a, const StatisticGroup& b) {
  return same(a.allocation, b.allocation) && same(a.segment, b.segment) && same(a.active, b.active) &&
         same(a.inactive_split, b.inactive_split) && same(a.allocated_bytes, b.allocated_bytes) &&
         same(a.reserved_bytes, b.reserved_bytes) && same(a.active_bytes, b.active_bytes) &&
         same(a.inactive_split_bytes, b.inactive_split_bytes) && same(a.requested_bytes, b.requested_bytes);
}

ReplayOptions options_of(const ProgramOptions& program) {
  ReplayOptions options;
  options.total_memory = program.total;
  options.pools = {{{0, 1}, RandomProgram::kPool}};
  return options;
}

/// A small recording: four blocks and two frees.
Snapshot small_recording() {
  RandomProgram program({.config = "", .seed = 7, .operations = 60});
  program.run([](Bench&) {});
  return program.snapshot();
}

TEST_CASE("every recording of the allocator replays without a difference") {
  CHECK(rc::check([] {
    ProgramOptions program;
    program.config = *rc::gen::elementOf(test::tested_configs());
    program.seed = *rc::gen::arbitrary<std::uint64_t>();
    program.operations = 600;
    program.private_pool = *rc::gen::arbitrary<bool>();
    // An oom entry does not say which pool was asked.
    const bool fraction = program.config.find("fraction") != std::string::npos;
    if (fraction) program.private_pool = false;
    RandomProgram recorded(program);
    recorded.run([](Bench&) {});
    const auto report = verify(recorded.snapshot(), options_of(program));
    RC_ASSERT(report.has_value());
    if (report->mismatches > 0) RC_LOG() << program.config << ": " << report->first_mismatch << '\n';
    RC_ASSERT(report->mismatches == 0u);
    const AllocatorStatistics& truth = recorded.bench().allocator.statistics();
    RC_ASSERT(same(report->statistics.all, truth.all));
    RC_ASSERT(same(report->statistics.small_pool, truth.small_pool));
    // Under a fraction an empty_cache can look the same as a retry (caching allocator 10): only their sum is sure.
    if (!fraction) RC_ASSERT(report->statistics.num_alloc_retries == truth.num_alloc_retries);
    RC_ASSERT(report->statistics.num_alloc_retries >= truth.num_alloc_retries);
    RC_ASSERT(report->statistics.num_ooms == truth.num_ooms);
    RC_ASSERT(report->statistics.num_device_alloc == truth.num_device_alloc);
    RC_ASSERT(report->statistics.num_device_free == truth.num_device_free);
  }));
}

/// Any options together, under a memory fraction that some programs feel.
std::string any_config() {
  const auto one_of = [](const std::vector<std::string>& values) {
    const std::string value = *rc::gen::elementOf(values);
    return value.empty() ? value : "," + value;
  };
  std::string config = "large_segment_size_mb:20";
  config += one_of({"", "per_process_memory_fraction:0.01", "per_process_memory_fraction:0.02",
                    "per_process_memory_fraction:0.0331"});
  config += one_of({"", "garbage_collection_threshold:0.5", "garbage_collection_threshold:0.8"});
  config += one_of({"", "max_split_size_mb:21", "max_split_size_mb:64", "max_split_size_mb:200"});
  config += one_of({"", "max_non_split_rounding_mb:30", "max_non_split_rounding_mb:120"});
  config += one_of({"", "roundup_power2_divisions:4", "roundup_power2_divisions:[64:8,256:4,>:2]"});
  config += one_of({"", "expandable_segments:True"});
  return config;
}

TEST_CASE("a recording replays without a difference under any options, its memory limit not told") {
  CHECK(rc::check([] {
    ProgramOptions program;
    program.config = any_config();
    program.seed = *rc::gen::arbitrary<std::uint64_t>();
    program.operations = 800;
    // On the smaller ones the driver refuses, too. What an expandable segment reserved and could not map is not traced.
    const bool expandable = program.config.find("expandable") != std::string::npos;
    program.total = expandable ? 200 * kGiB : *rc::gen::element<Bytes>(200 * kGiB, 12 * kGiB, 4 * kGiB);
    program.record_percent = *rc::gen::element(0u, 10u, 50u);
    program.empty_cache_permille = *rc::gen::element(0u, 5u);
    RandomProgram recorded(program);
    recorded.run([](Bench&) {});
    const auto report = verify(recorded.snapshot(), {});
    RC_ASSERT(report.has_value());
    if (report->mismatches > 0) RC_LOG() << program.config << ": " << report->first_mismatch << '\n';
    RC_ASSERT(report->mismatches == 0u);
    RC_ASSERT(!report->limit_contradicts);
    const AllocatorStatistics& truth = recorded.bench().allocator.statistics();
    RC_ASSERT(same(report->statistics.all, truth.all));
    RC_ASSERT(same(report->statistics.large_pool, truth.large_pool));
    RC_ASSERT(report->statistics.num_ooms == truth.num_ooms);
    RC_ASSERT(report->statistics.num_device_free == truth.num_device_free);
    if (!report->limit) return;
    const double fraction = parse_alloc_conf(program.config).value().per_process_memory_fraction;
    const auto limit = static_cast<Bytes>(fraction * static_cast<double>(program.total));
    RC_ASSERT(report->limit->least <= limit);
    RC_ASSERT(limit < report->limit->below);
  }));
}

TEST_CASE("a changed recording is noticed, and its place is named") {
  const Snapshot good = small_recording();
  REQUIRE(verify(good, {})->mismatches == 0);

  Snapshot moved = good;
  const auto it = std::find_if(moved.events.begin(), moved.events.end(),
                               [](const auto& event) { return event.action == AllocatorAction::alloc; });
  it->address += 512;
  auto report = verify(moved, {});
  CHECK(report->mismatches > 0);
  CHECK(report->first_mismatch.find("event 1: recorded alloc at") == 0);

  Snapshot stale = good;
  stale.segments.back().blocks.back().requested_size += 1;
  report = verify(stale, {});
  CHECK(report->mismatches == 1);
  CHECK(report->first_mismatch.find("final block") == 0);

  Snapshot missing = good;
  missing.segments.pop_back();
  CHECK(verify(missing, {})->mismatches > 0);

  ReplayOptions other;
  other.config = parse_alloc_conf("roundup_power2_divisions:4").value();
  CHECK(verify(good, other)->mismatches > 0);
}

TEST_CASE("a damaged recording is an error, not a crash") {
  Snapshot bad = small_recording();
  bad.events[1].size = 0;
  CHECK(verify(bad, {}).error().where == "event 1");
  bad = small_recording();
  bad.segments[0].blocks[0].size += 512;
  CHECK(verify(bad, {}).error().kind == ErrorKind::input);
  bad = small_recording();
  bad.segments.push_back(bad.segments[0]);
  CHECK(verify(bad, {}).error().what == "it overlaps the segment before it");
  ReplayOptions fraction;
  fraction.memory_fraction = 0.5;
  CHECK(verify(small_recording(), fraction).error().kind == ErrorKind::usage);
}

TEST_CASE("a recording with shuffled entries never breaks the replay") {
  CHECK(rc::check([](std::uint64_t seed) {
    ProgramOptions program;
    program.config = *rc::gen::elementOf(test::tested_configs());
    program.seed = seed;
    program.operations = 150;
    RandomProgram recorded(program);
    recorded.run([](Bench&) {});
    Snapshot broken = recorded.snapshot();
    test::Random random(seed);
    for (int i = 0; i < 20; ++i) {
      const std::size_t a = random.below(broken.events.size()), b = random.below(broken.events.size());
      switch (random.below(4)) {
        case 0:
          std::swap(broken.events[a], broken.events[b]);
          break;
        case 1:
          broken.events[a].action = static_cast<AllocatorAction>(random.below(9));
          break;
        case 2:
          broken.events[a].address = broken.events[b].address + 512 * random.below(8);
          break;
        default:
          broken.events[a].size = 1 + random.below(100 * kMiB);
      }
    }
    const auto report = verify(broken, options_of(program));
    if (report) RC_ASSERT(report->mismatches > 0u);
    test::CountedMemory memory;
    (void)what_if(broken, options_of(program), AllocatorConfig{}, memory, {});
  }));
}

TEST_CASE("a memory limit that changes while recording is said so, and replayed") {
  Bench bench("garbage_collection_threshold:0.5");
  bench.allocator.set_limit(100 * kMiB);
  bench.allocator.free(bench.malloc(1000));  // empty_cache would have given it back
  bench.allocator.free(bench.malloc(60 * kMiB));
  const BlockHandle a = bench.malloc(64 * kMiB);  // the 60 MiB are collected: the limit is below 124 MiB
  bench.allocator.set_limit(kGiB);
  const BlockHandle b = bench.malloc(300 * kMiB);
  Snapshot snapshot;
  snapshot.events = bench.list.events;
  snapshot.segments = bench.allocator.snapshot();
  snapshot.settings.alloc_conf = "garbage_collection_threshold:0.5";
  snapshot.settings.garbage_collection_threshold = 0.5;
  const auto report = verify(snapshot, {});
  REQUIRE(report.has_value());
  CHECK(report->first_mismatch.empty());
  CHECK(report->limit_contradicts);
  CHECK_FALSE(report->limit.has_value());
  bench.allocator.free(a);
  bench.allocator.free(b);
}

TEST_CASE("a free block that a completion makes oversize does not serve the malloc that polls") {
  const std::string config = "expandable_segments:True,max_split_size_mb:21";
  Bench bench(config);
  const BlockHandle before = bench.malloc(7 * kMiB);
  const BlockHandle large = bench.malloc(27 * kMiB);
  bench.malloc(6 * kMiB);
  const BlockHandle waited_for = bench.malloc(11 * kMiB);
  bench.malloc(9 * kMiB);  // three pages of 20 MiB are full
  bench.allocator.set_limit(60 * kMiB);
  for (const BlockHandle block : {large, waited_for}) {
    bench.allocator.record_stream(block, StreamId{1});
    bench.allocator.free(block);
  }
  bench.allocator.free(before);  // 7 MiB, next to those 27
  bench.events.completed = 1;
  const std::size_t begin = bench.list.events.size();
  bench.malloc(3 * kMiB);  // misses: the retry waits for the 11 MiB
  std::vector<AllocatorAction> actions;
  for (std::size_t i = begin; i < bench.list.events.size(); ++i) actions.push_back(bench.list.events[i].action);
  using A = AllocatorAction;
  CHECK(actions == std::vector{A::free_completed, A::free_completed, A::segment_unmap, A::segment_map, A::alloc});
  Snapshot snapshot;
  snapshot.events = bench.list.events;
  snapshot.segments = bench.allocator.snapshot();
  snapshot.settings.alloc_conf = config;
  snapshot.settings.expandable_segments = true;
  snapshot.settings.max_split_size = 21 * kMiB;
  const auto report = verify(snapshot, {});
  REQUIRE(report.has_value());
  CHECK(report->first_mismatch.empty());
}

TEST_CASE("segments and blocks of before the recording are found") {
  Bench bench;
  const BlockHandle early = bench.malloc(1000);
  const BlockHandle slack = bench.malloc(12 * kMiB - 512);  // owns its whole segment
  const BlockHandle pending = bench.malloc(3 * kMiB);
  const BlockHandle kept = bench.malloc(5000);
  bench.allocator.free(bench.malloc(50 * kMiB));
  bench.allocator.record_stream(pending, StreamId{1});
  bench.allocator.free(pending);
  bench.list.events.clear();

  bench.malloc(4 * kMiB);
  bench.events.completed = 1;
  bench.malloc(700);
  bench.allocator.free(slack);
  bench.allocator.free(early);
  bench.malloc(11 * kMiB);
  bench.allocator.empty_cache();
  bench.malloc(60 * kMiB);
  Snapshot snapshot;
  snapshot.events = bench.list.events;
  snapshot.segments = bench.allocator.snapshot();
  const auto report = verify(snapshot, {});
  REQUIRE(report.has_value());
  CHECK(report->first_mismatch.empty());
  CHECK(report->adopted_segments == 4);
  CHECK(report->adopted_blocks == 4);
  CHECK(report->empty_caches.size() == 1);
  CHECK(report->statistics.all.allocated_bytes.current == bench.all().allocated_bytes.current);
  CHECK(report->statistics.num_device_alloc == bench.allocator.statistics().num_device_alloc);
  bench.allocator.free(kept);
}

TEST_CASE("pages of before the recording are found") {
  Bench bench("expandable_segments:True");
  const BlockHandle a = bench.malloc(30 * kMiB);
  const BlockHandle b = bench.malloc(30 * kMiB);
  const BlockHandle c = bench.malloc(1000);
  bench.list.events.clear();
  bench.allocator.free(a);
  bench.allocator.empty_cache();
  bench.malloc(50 * kMiB);
  bench.malloc(25 * kMiB);
  bench.malloc(2000);
  bench.allocator.free(b);
  Snapshot snapshot;
  snapshot.events = bench.list.events;
  snapshot.segments = bench.allocator.snapshot();
  snapshot.settings.expandable_segments = true;
  const auto report = verify(snapshot, {});
  REQUIRE(report.has_value());
  CHECK(report->first_mismatch.empty());
  CHECK(report->adopted_blocks == 3);
  CHECK(report->statistics.all.reserved_bytes.current == bench.all().reserved_bytes.current);
  bench.allocator.free(c);
}

TEST_CASE("peaks are reported step by step") {
  Bench bench;
  bench.allocator.free(bench.malloc(100 * kMiB));
  const std::size_t second = bench.list.events.size();
  bench.allocator.free(bench.malloc(40 * kMiB));
  Snapshot snapshot;
  snapshot.events = bench.list.events;
  snapshot.segments = bench.allocator.snapshot();
  for (std::size_t i = 0; i < snapshot.events.size(); ++i)
    snapshot.events[i].time_us = static_cast<std::int64_t>(10 * i);
  snapshot.annotations = {
      {true, "step", 0, 0}, {false, "step", 0, 5}, {true, "step", 0, static_cast<std::int64_t>(10 * second) - 3}};
  ReplayOptions options;
  options.step_starts = annotation_starts(snapshot, "step");
  CHECK(options.step_starts == std::vector<std::size_t>{0, second});
  const auto report = verify(snapshot, options);
  REQUIRE(report->steps.size() == 2);
  CHECK(report->steps[0].all.allocated_bytes.peak == 100 * kMiB);
  CHECK(report->steps[1].all.allocated_bytes.peak == 40 * kMiB);
  CHECK(report->peaks.allocated == 40 * kMiB);
  CHECK(report->block_size_of_alloc == std::vector<Bytes>{100 * kMiB, 40 * kMiB});
}

TEST_CASE("a what-if of the recorded options is the recording") {
  CHECK(rc::check([] {
    ProgramOptions program;
    program.seed = *rc::gen::arbitrary<std::uint64_t>();
    program.operations = 500;
    RandomProgram recorded(program);
    recorded.run([](Bench&) {});
    const Snapshot snapshot = recorded.snapshot();
    const auto report = verify(snapshot, {});
    test::CountedMemory memory(program.total);
    const auto estimate = what_if(snapshot, {}, AllocatorConfig{}, memory, report->empty_caches);
    RC_ASSERT(estimate.has_value());
    RC_ASSERT(estimate->peaks == report->peaks);
    RC_ASSERT(same(estimate->statistics.all, recorded.bench().all()));
  }));
}

TEST_CASE("a what-if under less memory reports what fails") {
  Bench bench;
  const BlockHandle a = bench.malloc(600 * kMiB);
  const BlockHandle b = bench.malloc(600 * kMiB);
  bench.allocator.free(b);
  bench.allocator.free(a);
  Snapshot snapshot;
  snapshot.events = bench.list.events;
  snapshot.segments = bench.allocator.snapshot();
  test::CountedMemory memory(kGiB);
  const auto estimate = what_if(snapshot, {}, AllocatorConfig{}, memory, {});
  CHECK(estimate->allocs == 2);
  CHECK(estimate->failed_allocs == 1);
  CHECK(estimate->first_failure->tried == 600 * kMiB);
  CHECK(estimate->first_failure_event == 3);
  CHECK(estimate->peaks.allocated == 600 * kMiB);
}

}  // namespace
}  // namespace foreshard
