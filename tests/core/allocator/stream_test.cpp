// record_stream and deferred frees: caching allocator 5.
#include "tests/catch.hpp"
#include "tests/core/allocator/harness.hpp"

namespace foreshard {
namespace {

using test::Bench;

TEST_CASE("a block used on another stream waits for that stream's event") {
  Bench bench;
  const BlockHandle block = bench.malloc(30 * kMiB);
  bench.allocator.record_stream(block, StreamId{1});
  bench.allocator.record_stream(block, StreamId{1});
  bench.list.take();
  bench.allocator.free(block);
  CHECK(bench.list.take() == "free_requested 31457280");
  CHECK(bench.events.streams == std::vector<StreamId>{StreamId{1}});
  CHECK(bench.all().allocated_bytes.current == 0);
  CHECK(bench.all().active_bytes.current == 30 * kMiB);
  CHECK(bench.all().requested_bytes.current == 30 * kMiB);
  CHECK(bench.allocator.snapshot()[0].blocks[0].state == BlockState::pending_free);

  bench.malloc(30 * kMiB);  // polls, finds nothing complete, and needs a segment
  CHECK(bench.list.take() == "segment_alloc 31457280, alloc 31457280");
  bench.events.completed = 1;
  bench.malloc(30 * kMiB);
  CHECK(bench.list.take() == "free_completed 31457280, alloc 31457280");
  CHECK(bench.all().active_bytes.current == 60 * kMiB);
}

TEST_CASE("a use on the block's own stream does not count") {
  Bench bench;
  const BlockHandle block = bench.malloc(1000, StreamId{3});
  bench.allocator.record_stream(block, StreamId{3});
  bench.list.take();
  bench.allocator.free(block);
  CHECK(bench.list.take() == "free_requested 1000, free_completed 1000");
}

TEST_CASE("a block waits for all of its streams, and a queue for its first event") {
  Bench bench;
  const BlockHandle both = bench.malloc(1000);
  const BlockHandle second = bench.malloc(2000);
  bench.allocator.record_stream(both, StreamId{2});
  bench.allocator.record_stream(both, StreamId{1});
  bench.allocator.record_stream(second, StreamId{1});
  bench.allocator.free(both);    // events 0 (stream 1) and 1 (stream 2)
  bench.allocator.free(second);  // event 2 (stream 1)
  CHECK(bench.events.streams == std::vector<StreamId>{StreamId{1}, StreamId{2}, StreamId{1}});
  bench.list.take();
  bench.events.completed = 1;
  bench.allocator.process_events();
  CHECK(bench.list.take().empty());
  bench.events.completed = 3;
  bench.allocator.process_events();
  CHECK(bench.list.take() == "free_completed 2000, free_completed 1000");  // by stream, then in order
}

TEST_CASE("free does not poll") {
  Bench bench;
  const BlockHandle a = bench.malloc(1000);
  const BlockHandle b = bench.malloc(1000);
  bench.allocator.record_stream(a, StreamId{1});
  bench.allocator.free(a);
  bench.events.completed = 1;
  bench.list.take();
  bench.allocator.free(b);
  CHECK(bench.list.take() == "free_requested 1000, free_completed 1000");
}

TEST_CASE("empty_cache waits for every event") {
  Bench bench;
  const BlockHandle block = bench.malloc(30 * kMiB);
  bench.allocator.record_stream(block, StreamId{1});
  bench.allocator.free(block);
  bench.list.take();
  bench.allocator.empty_cache();
  CHECK(bench.list.take() == "free_completed 31457280, segment_free 31457280");
  CHECK(bench.allocator.statistics().num_sync_all_streams == 1);
  CHECK(bench.all().reserved_bytes.current == 0);
}

}  // namespace
}  // namespace foreshard
