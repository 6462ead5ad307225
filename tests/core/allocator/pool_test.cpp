// Private pools: caching allocator 6.
#include "tests/catch.hpp"
#include "tests/core/allocator/harness.hpp"

namespace foreshard {
namespace {

using test::Bench;

TEST_CASE("a private pool has segments of its own, of its kind of memory") {
  Bench bench;
  const PoolId pool = bench.allocator.create_pool({.kind = MemoryKind::symmetric});
  bench.allocator.free(bench.malloc(30 * kMiB));
  bench.list.take();
  const BlockHandle block = bench.malloc(30 * kMiB, kComputeStream, pool);
  CHECK(bench.list.take() == "segment_alloc 31457280, alloc 31457280");
  CHECK(bench.memory.kinds == std::vector<MemoryKind>{MemoryKind::device, MemoryKind::symmetric});
  bench.allocator.free(block);
  bench.allocator.empty_cache();  // the pool is in use: only the default pool's segment goes
  CHECK(bench.all().reserved_bytes.current == 30 * kMiB);
  CHECK(bench.allocator.snapshot()[0].pool_id == std::pair<std::uint64_t, std::uint64_t>{0, 1});
  bench.allocator.release_pool(pool);
  bench.allocator.empty_cache();
  CHECK(bench.all().reserved_bytes.current == 0);
}

TEST_CASE("a no_split pool hands out whole segments") {
  Bench bench;
  const PoolId pool = bench.allocator.create_pool({.no_split = true, .kind = MemoryKind::symmetric});
  bench.allocator.free(bench.malloc(kGiB, kComputeStream, pool));
  const BlockHandle block = bench.malloc(116 * kMiB, kComputeStream, pool);
  CHECK(bench.allocator.block_size(block) == kGiB);
  CHECK(bench.all().allocated_bytes.current == kGiB);
  CHECK(bench.all().requested_bytes.current == 116 * kMiB);
  CHECK(bench.allocator.block_size(bench.malloc(512, kComputeStream, pool)) == 2 * kMiB);
}

TEST_CASE("a use_on_oom pool is searched before anything is released") {
  Bench bench({}, kGiB);
  const PoolId pool = bench.allocator.create_pool({.use_on_oom = true});
  bench.allocator.free(bench.malloc(500 * kMiB, kComputeStream, pool));
  bench.allocator.free(bench.malloc(300 * kMiB));
  bench.list.take();
  const BlockHandle block = bench.malloc(450 * kMiB);
  CHECK(bench.list.take() == "alloc 471859200");
  CHECK(bench.all().inactive_split_bytes.current == 50 * kMiB);
  bench.allocator.free(block);
  CHECK(bench.allocator.snapshot()[0].pool_id.second == 1);  // it goes back to the pool it came from
}

TEST_CASE("expandable segments serve private pools without an allocator of their own") {
  Bench bench("expandable_segments:True");
  const PoolId plain = bench.allocator.create_pool({});
  const PoolId custom = bench.allocator.create_pool({.kind = MemoryKind::registered});
  bench.malloc(2 * kMiB, kComputeStream, plain);
  bench.malloc(2 * kMiB, kComputeStream, custom);
  CHECK(bench.list.take() == "segment_map 20971520, alloc 2097152, segment_alloc 20971520, alloc 2097152");
  test::CountedMemory memory;
  test::ManualEvents events;
  CachingAllocator old(parse_alloc_conf("expandable_segments:True", "2.4").value(), memory, events, nullptr);
  (void)old.malloc(2 * kMiB, kComputeStream, old.create_pool({})).value();
  CHECK(old.statistics().all.segment.current == 1);
}

TEST_CASE("an allocation routed to a pool neither polls nor releases before 2.13") {
  for (const char* version : {"2.11", "2.13"}) {
    test::CountedMemory memory(kGiB);
    test::ManualEvents events;
    CachingAllocator allocator(parse_alloc_conf("", version).value(), memory, events, nullptr);
    const PoolId pool = allocator.create_pool({});
    allocator.free(allocator.malloc(700 * kMiB, kComputeStream).value());
    CHECK(allocator.malloc(500 * kMiB, kComputeStream, pool).has_value() == (std::string(version) == "2.13"));
  }
}

TEST_CASE("empty_cache of one pool leaves the others alone") {
  Bench bench;
  const PoolId pool = bench.allocator.create_pool({});
  const BlockHandle block = bench.malloc(30 * kMiB, kComputeStream, pool);
  bench.allocator.record_stream(block, StreamId{1});
  bench.allocator.free(block);
  bench.allocator.free(bench.malloc(40 * kMiB));
  bench.allocator.release_pool(pool);
  bench.list.take();
  bench.allocator.empty_cache(pool);
  CHECK(bench.list.take() == "free_completed 31457280, segment_free 31457280");
  CHECK(bench.allocator.statistics().num_sync_all_streams == 0);
}

}  // namespace
}  // namespace foreshard
