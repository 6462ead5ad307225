// Expandable segments: caching allocator 4.
#include "tests/catch.hpp"
#include "tests/core/allocator/harness.hpp"

namespace foreshard {
namespace {

using test::Bench;

constexpr const char* kExpandable = "expandable_segments:True";

TEST_CASE("the worked example of expandable segments") {
  Bench bench(kExpandable);
  const BlockHandle a = bench.malloc(16 * kMiB);
  CHECK(bench.list.take() == "segment_map 20971520, alloc 16777216");
  const Address base = bench.allocator.address(a);
  const BlockHandle b = bench.malloc(16 * kMiB);
  CHECK(bench.list.events[0].address == base + 20 * kMiB);
  CHECK(bench.list.take() == "segment_map 20971520, alloc 16777216");
  CHECK(bench.allocator.address(b) == base + 16 * kMiB);
  CHECK(bench.all().reserved_bytes.current == 40 * kMiB);
  CHECK(bench.all().segment.current == 0);
  CHECK(bench.all().inactive_split.current == 0);

  bench.allocator.free(a);
  bench.allocator.empty_cache();  // no whole page is free
  CHECK(bench.all().reserved_bytes.current == 40 * kMiB);
  bench.allocator.free(b);
  bench.list.take();
  const BlockHandle c = bench.malloc(32 * kMiB);
  CHECK(bench.allocator.address(c) == base);
  CHECK(bench.list.take() == "alloc 33554432");

  bench.allocator.free(c);
  bench.list.take();
  bench.allocator.empty_cache();
  CHECK(bench.list.take() == "segment_unmap 41943040");
  CHECK(bench.memory.ranges == 0);
  CHECK(bench.all().reserved_bytes.current == 0);
  CHECK(bench.allocator.statistics().num_device_alloc == 2);
  CHECK(bench.allocator.statistics().num_device_free == 1);
}

TEST_CASE("the growable tail is spared for a block that cannot grow") {
  Bench bench(kExpandable);
  const BlockHandle interior = bench.malloc(10 * kMiB);
  bench.malloc(4 * kMiB);
  const BlockHandle tail = bench.malloc(6 * kMiB);
  const Address first = bench.allocator.address(interior);
  bench.allocator.free(interior);
  bench.allocator.free(tail);
  CHECK(bench.allocator.address(bench.malloc(5 * kMiB)) == first);
}

TEST_CASE("unmapping takes whole pages of the range's own grid") {
  Bench bench(kExpandable);
  const BlockHandle a = bench.malloc(10 * kMiB);
  const BlockHandle middle = bench.malloc(60 * kMiB);
  const BlockHandle c = bench.malloc(5 * kMiB);
  const Address base = bench.allocator.address(a);
  bench.allocator.free(middle);
  bench.list.take();
  bench.allocator.empty_cache();
  REQUIRE(bench.list.events.size() == 1);
  CHECK(bench.list.events[0].address == base + 20 * kMiB);
  CHECK(bench.list.take() == "segment_unmap 41943040");
  const std::vector<SnapshotSegment> runs = bench.allocator.snapshot();
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].total_size == 20 * kMiB);
  CHECK(runs[1].address == base + 60 * kMiB);
  CHECK(runs[1].blocks[0] == SnapshotBlock{base + 60 * kMiB, 10 * kMiB, 0, BlockState::inactive});

  bench.malloc(45 * kMiB);  // from the free end of the first run, over the pages in between
  CHECK(bench.list.take() == "segment_map 41943040, alloc 47185920");
  bench.allocator.free(a);
  bench.allocator.free(c);
}

TEST_CASE("a range is 9/8 of the device's memory, in whole pages") {
  Bench bench(kExpandable, kGiB);
  bench.malloc(kMiB);
  bench.malloc(2 * kMiB);
  const auto runs = bench.allocator.snapshot();
  REQUIRE(runs.size() == 2);
  CHECK(runs[1].address - runs[0].address == 1152 * kMiB);
  CHECK(runs[0].small_pool);
  CHECK_FALSE(bench.allocator.malloc(2 * kGiB, kComputeStream).has_value());
}

TEST_CASE("a failed map releases and tries again") {
  Bench bench(kExpandable, 200 * kMiB);
  bench.allocator.free(bench.malloc(100 * kMiB, StreamId{1}));
  bench.list.take();
  bench.malloc(150 * kMiB);
  CHECK(bench.list.take() == "segment_unmap 104857600, segment_map 167772160, alloc 157286400");
  CHECK(bench.allocator.statistics().num_alloc_retries == 1);
}

}  // namespace
}  // namespace foreshard
