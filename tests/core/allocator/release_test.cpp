// Garbage collection, oversize blocks, memory fraction, retry and out of memory: caching allocator 3.3 to 3.8.
#include "tests/catch.hpp"
#include "tests/core/allocator/harness.hpp"

namespace foreshard {
namespace {

using test::Bench;

TEST_CASE("empty_cache gives large segments back before small ones, by size and address") {
  Bench bench;
  const BlockHandle small = bench.malloc(1000);
  const BlockHandle large = bench.malloc(50 * kMiB);
  const BlockHandle middle = bench.malloc(40 * kMiB);
  const BlockHandle held = bench.malloc(2 * kMiB);
  const BlockHandle in_held = bench.malloc(2 * kMiB);
  for (const BlockHandle block : {small, large, middle, in_held}) bench.allocator.free(block);
  bench.list.take();
  bench.allocator.empty_cache();
  CHECK(bench.list.take() == "segment_free 41943040, segment_free 52428800, segment_free 2097152");
  CHECK(bench.all().segment.current == 1);
  CHECK(bench.allocator.statistics().num_device_free == 3);
  bench.allocator.free(held);
}

TEST_CASE("out of memory goes through release and one retry") {
  Bench bench({}, kGiB);
  const BlockHandle first = bench.malloc(600 * kMiB);
  const auto failed = bench.allocator.malloc(600 * kMiB - 1, kComputeStream);
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().requested == 600 * kMiB - 1);
  CHECK(failed.error().tried == 600 * kMiB);
  CHECK(failed.error().allowed == kGiB);
  CHECK(failed.error().device_free == 424 * kMiB);
  CHECK(failed.error().allocated == 600 * kMiB);
  CHECK(bench.list.events.back().address == 424 * kMiB);
  CHECK(bench.list.take() == "segment_alloc 629145600, alloc 629145600, oom 629145600");
  bench.allocator.free(first);
  bench.list.take();
  bench.malloc(700 * kMiB);
  CHECK(bench.list.take() == "segment_free 629145600, segment_alloc 734003200, alloc 734003200");
  const AllocatorStatistics& statistics = bench.allocator.statistics();
  CHECK(statistics.num_ooms == 1);
  CHECK(statistics.num_alloc_retries == 2);
  CHECK(statistics.num_sync_all_streams == 2);
}

TEST_CASE("a block that the retry's wait set free is not searched for (pytorch#189504)") {
  Bench bench({}, 700 * kMiB);
  bench.allocator.free(bench.malloc(600 * kMiB));
  const BlockHandle a = bench.malloc(300 * kMiB);
  bench.malloc(300 * kMiB);
  bench.allocator.record_stream(a, StreamId{1});
  bench.allocator.free(a);
  bench.list.take();
  CHECK_FALSE(bench.allocator.malloc(300 * kMiB, kComputeStream).has_value());
  CHECK(bench.list.take() == "free_completed 314572800, oom 314572800");
  CHECK(bench.allocator.malloc(300 * kMiB, kComputeStream).has_value());
}

TEST_CASE("a memory fraction limits what is reserved") {
  Bench bench("per_process_memory_fraction:0.5", kGiB);
  bench.malloc(500 * kMiB);
  const auto failed = bench.allocator.malloc(14 * kMiB, kComputeStream);
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().allowed == 512 * kMiB);
  CHECK(failed.error().device_free == 524 * kMiB);
  CHECK(bench.allocator.malloc(12 * kMiB, kComputeStream).has_value());
}

TEST_CASE("throw_on_cudamalloc_oom refuses without releasing anything") {
  test::CountedMemory memory(kGiB);
  test::ManualEvents events;
  const auto config = parse_alloc_conf("throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5", "2.12").value();
  CachingAllocator allocator(config, memory, events, nullptr);
  allocator.free(allocator.malloc(500 * kMiB, kComputeStream).value());
  CHECK_FALSE(allocator.malloc(510 * kMiB, kComputeStream).has_value());
  CHECK(allocator.statistics().num_device_free == 0);
  CHECK(allocator.statistics().num_alloc_retries == 0);
  CHECK(allocator.statistics().num_ooms == 1);
}

constexpr const char* kCollect = "per_process_memory_fraction:0.5,garbage_collection_threshold:0.5";

TEST_CASE("garbage collection frees every block of at least average age") {
  Bench bench(kCollect, kGiB);  // collects above 256 MiB
  const BlockHandle a = bench.malloc(100 * kMiB);
  const BlockHandle b = bench.malloc(100 * kMiB);
  bench.malloc(100 * kMiB);
  bench.allocator.free(a);
  bench.allocator.free(b);
  bench.list.take();
  bench.malloc(150 * kMiB);  // 44 MiB are wanted, but a pass is not cut short
  CHECK(bench.list.take() ==
        "segment_free 104857600, segment_free 104857600, segment_alloc 157286400, alloc 157286400");
  CHECK(bench.allocator.statistics().num_alloc_retries == 0);
}

TEST_CASE("what a miss gives back, by the memory limit") {
  Bench bench("garbage_collection_threshold:0.5", kGiB);
  const BlockHandle a = bench.malloc(100 * kMiB);
  const BlockHandle b = bench.malloc(100 * kMiB);
  bench.allocator.free(a);
  bench.allocator.free(b);
  CHECK_FALSE(bench.allocator.finds_block(150 * kMiB, kComputeStream));
  LimitOutcomes found = bench.allocator.limit_outcomes(150 * kMiB, kComputeStream);
  CHECK(found.reserved == 200 * kMiB);
  CHECK(found.segment == 150 * kMiB);
  std::erase_if(found.outcomes, [](const LimitOutcome& one) { return one.least >= one.below; });
  REQUIRE(found.outcomes.size() == 3);
  CHECK(found.outcomes[0].least == 400 * kMiB);  // half of it is no less than what is reserved
  CHECK(found.outcomes[0].segments.empty());
  CHECK(found.outcomes[1].least == 150 * kMiB);
  CHECK(found.outcomes[1].below == 400 * kMiB);
  CHECK(found.outcomes[1].segments == bench.allocator.cached_segments());
  CHECK(found.outcomes[1].next == LimitOutcome::Next::memory);
  CHECK(found.outcomes[2].below == 150 * kMiB);
  CHECK(found.outcomes[2].next == LimitOutcome::Next::everything);
}

TEST_CASE("garbage collection spares the younger blocks") {
  Bench bench(kCollect, kGiB);
  const BlockHandle a = bench.malloc(100 * kMiB);
  const BlockHandle b = bench.malloc(100 * kMiB);
  const BlockHandle c = bench.malloc(100 * kMiB);
  bench.allocator.free(a);
  bench.allocator.free(c);
  bench.malloc(100 * kMiB);  // a hit in a's segment: c ages
  bench.allocator.free(b);
  bench.list.take();
  const Address oldest = Address{(Address{1} << 40) + 200 * kMiB};
  bench.malloc(150 * kMiB);
  REQUIRE(bench.list.events.size() == 3);
  CHECK(bench.list.events[0].address == oldest);
  CHECK(bench.list.take() == "segment_free 104857600, segment_alloc 157286400, alloc 157286400");
}

TEST_CASE("oversize blocks serve only oversize requests of nearly their size") {
  Bench bench("max_split_size_mb:100");
  bench.allocator.free(bench.malloc(200 * kMiB));
  bench.list.take();
  bench.malloc(50 * kMiB);
  CHECK(bench.list.take() == "segment_alloc 52428800, alloc 52428800");
  bench.malloc(180 * kMiB);  // 200 is not below 180 + 20
  CHECK(bench.list.take() == "segment_alloc 188743680, alloc 188743680");
  const BlockHandle slack = bench.malloc(180 * kMiB + 512);
  CHECK(bench.list.take() == "alloc 188744192");
  CHECK(bench.allocator.block_size(slack) == 200 * kMiB);
  CHECK(bench.allocator.statistics().oversize_segments.current == 2);
  CHECK(bench.allocator.statistics().oversize_allocations.current == 2);
}

TEST_CASE("with max_split_size one large enough block is released first") {
  Bench bench("max_split_size_mb:100", kGiB);
  bench.allocator.free(bench.malloc(600 * kMiB));
  bench.list.take();
  bench.malloc(500 * kMiB);
  CHECK(bench.list.take() == "segment_free 629145600, segment_alloc 524288000, alloc 524288000");
  CHECK(bench.allocator.statistics().num_alloc_retries == 0);
}

TEST_CASE("with max_split_size several oversize blocks are released, the largest first") {
  Bench bench("max_split_size_mb:100", kGiB);
  std::vector<BlockHandle> blocks;
  for (const Bytes size : {150, 250, 200}) blocks.push_back(bench.malloc(size * kMiB));
  bench.malloc(50 * kMiB);
  for (const BlockHandle block : blocks) bench.allocator.free(block);
  bench.list.take();
  bench.malloc(440 * kMiB);
  CHECK(bench.list.take() ==
        "segment_free 262144000, segment_free 209715200, segment_alloc 461373440, alloc 461373440");
  CHECK(bench.allocator.statistics().num_alloc_retries == 0);
}

TEST_CASE("an oversize release that is not enough is followed by the release of all") {
  Bench bench("max_split_size_mb:100", kGiB);
  std::vector<BlockHandle> blocks;
  for (const Bytes size : {90, 250, 300}) blocks.push_back(bench.malloc(size * kMiB));
  for (const BlockHandle block : blocks) bench.allocator.free(block);
  bench.list.take();
  bench.malloc(1000 * kMiB);
  CHECK(bench.list.take() ==
        "segment_free 314572800, segment_free 262144000, segment_free 94371840, segment_alloc 1048576000, "
        "alloc 1048576000");
  CHECK(bench.allocator.statistics().num_alloc_retries == 1);
}

}  // namespace
}  // namespace foreshard
