// What must hold after every operation, for any program: caching allocator 1.2 and 7.
#include <rapidcheck.h>

#include "tests/catch.hpp"
#include "tests/core/allocator/random_program.hpp"

namespace foreshard {
namespace {

using test::Bench;
using test::ProgramOptions;
using test::RandomProgram;
using test::tested_configs;

/// The sums that the statistics must equal, recomputed from the blocks.
struct Sums {
  std::int64_t allocation = 0, allocated = 0, active_count = 0, active = 0, requested = 0, reserved = 0, segments = 0;
  std::int64_t split_count = 0, split = 0;

  explicit Sums(const StatisticGroup& group)
      : allocation(group.allocation.current),
        allocated(group.allocated_bytes.current),
        active_count(group.active.current),
        active(group.active_bytes.current),
        requested(group.requested_bytes.current),
        reserved(group.reserved_bytes.current),
        segments(group.segment.current),
        split_count(group.inactive_split.current),
        split(group.inactive_split_bytes.current) {}
  Sums() = default;
  bool operator==(const Sums&) const = default;

  void add(const SnapshotSegment& segment) {
    reserved += static_cast<std::int64_t>(segment.total_size);
    if (!segment.is_expandable) ++segments;
    for (const SnapshotBlock& block : segment.blocks) {
      const auto size = static_cast<std::int64_t>(block.size);
      if (block.state == BlockState::live) {
        ++allocation;
        allocated += size;
      }
      if (block.state != BlockState::inactive) {
        ++active_count;
        active += size;
        requested += static_cast<std::int64_t>(block.requested_size);
      } else if (!segment.is_expandable && segment.blocks.size() > 1) {
        ++split_count;
        split += size;
      }
    }
  }
};

void check_segment(const SnapshotSegment& segment) {
  Address next = segment.address;
  bool last_free = false;
  for (const SnapshotBlock& block : segment.blocks) {
    RC_ASSERT(block.address == next);
    RC_ASSERT(block.size > 0u);
    RC_ASSERT(block.size % 512 == 0u);
    const bool free = block.state == BlockState::inactive;
    RC_ASSERT(!(free && last_free));
    if (!free) RC_ASSERT(block.requested_size <= block.size);
    last_free = free;
    next += block.size;
  }
  RC_ASSERT(next == segment.address + segment.total_size);
}

void check_state(Bench& bench) {
  Sums all, small, large;
  Address end = 0;
  for (const SnapshotSegment& segment : bench.allocator.snapshot()) {
    RC_ASSERT(segment.address >= end);
    end = segment.address + segment.total_size;
    check_segment(segment);
    all.add(segment);
    (segment.small_pool ? small : large).add(segment);
  }
  const AllocatorStatistics& statistics = bench.allocator.statistics();
  RC_ASSERT(all == Sums(statistics.all));
  RC_ASSERT(small == Sums(statistics.small_pool));
  RC_ASSERT(large == Sums(statistics.large_pool));
  const MemoryPeaks peaks = bench.allocator.peaks();
  RC_ASSERT(peaks.requested <= peaks.allocated + peaks.active);
  RC_ASSERT(peaks.allocated <= peaks.active);
  RC_ASSERT(peaks.active <= peaks.reserved);
}

ProgramOptions any_program(int operations) {
  ProgramOptions options;
  options.config = *rc::gen::elementOf(tested_configs());
  options.seed = *rc::gen::arbitrary<std::uint64_t>();
  options.operations = operations;
  options.private_pool = *rc::gen::arbitrary<bool>();
  return options;
}

TEST_CASE("blocks tile their segments, free ones are merged, and the statistics are their sums") {
  CHECK(rc::check([] {
    RandomProgram program(any_program(300));
    program.run(check_state);
  }));
}

TEST_CASE("statistics are current = allocated - freed and never above their peak") {
  CHECK(rc::check([] {
    RandomProgram program(any_program(500));
    program.run([](Bench&) {});
    for (const StatisticGroup* group : {&program.bench().all(), &program.bench().allocator.statistics().small_pool}) {
      for (const Statistic* one :
           {&group->allocation, &group->segment, &group->active, &group->inactive_split, &group->allocated_bytes,
            &group->reserved_bytes, &group->active_bytes, &group->inactive_split_bytes, &group->requested_bytes}) {
        RC_ASSERT(one->current == one->allocated - one->freed);
        RC_ASSERT(one->current <= one->peak);
        RC_ASSERT(one->current >= 0);
      }
    }
  }));
}

TEST_CASE("the same program gives the same entries") {
  CHECK(rc::check([] {
    const ProgramOptions options = any_program(300);
    RandomProgram first(options), second(options);
    first.run([](Bench&) {});
    second.run([](Bench&) {});
    RC_ASSERT(first.bench().list.take() == second.bench().list.take());
    RC_ASSERT(Sums(first.bench().all()) == Sums(second.bench().all()));
  }));
}

TEST_CASE("from 2.13 on where segments lie decides nothing, in any program") {
  CHECK(rc::check([] {
    ProgramOptions options = any_program(300);
    options.pytorch = *rc::gen::elementOf(std::vector<std::string>{"2.13", "2.14", "main"});
    RandomProgram up(options);
    options.addresses = test::Addresses::descending;
    RandomProgram down(options);
    up.run([](Bench&) {});
    down.run([](Bench&) {});
    RC_ASSERT(up.bench().list.take() == down.bench().list.take());
    RC_ASSERT(Sums(up.bench().all()) == Sums(down.bench().all()));
    RC_ASSERT(up.bench().allocator.peaks() == down.bench().allocator.peaks());
  }));
}

TEST_CASE("memory that was asked of the driver is given back in the end") {
  CHECK(rc::check([] {
    ProgramOptions options = any_program(300);
    options.private_pool = false;
    RandomProgram program(options);
    program.run([](Bench&) {});
    Bench& bench = program.bench();
    for (const SnapshotSegment& segment : bench.allocator.snapshot())
      RC_ASSERT(segment.active_size <= segment.total_size);
    program.free_all();
    bench.allocator.empty_cache();
    RC_ASSERT(bench.all().reserved_bytes.current == 0);
    RC_ASSERT(bench.memory.info().free == bench.memory.info().total);
    RC_ASSERT(bench.memory.ranges == 0);
  }));
}

}  // namespace
}  // namespace foreshard
