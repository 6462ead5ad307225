// The allocator's rules that differ between PyTorch versions, as vectors (core/settings/version_rules.hpp).
#include "tests/catch.hpp"
#include "tests/core/allocator/random_program.hpp"

namespace foreshard {
namespace {

using test::Addresses;
using test::Bench;

/// Two free blocks of 40 MiB, of segments made one after the other: whether the first one's is taken.
bool takes_the_first(const std::string& pytorch, Addresses addresses, const std::string& config = {}) {
  Bench bench(config, 80 * kGiB, pytorch, addresses);
  const BlockHandle first = bench.malloc(40 * kMiB);
  const Address of_first = bench.allocator.address(first);
  const BlockHandle second = bench.malloc(40 * kMiB);
  bench.allocator.free(second);
  bench.allocator.free(first);
  return bench.allocator.address(bench.malloc(40 * kMiB)) == of_first;
}

TEST_CASE("ties go by address up to 2.12 and by creation from 2.13 on") {
  for (const char* version : {"2.11", "2.12"}) {
    CAPTURE(version);
    CHECK(takes_the_first(version, Addresses::ascending));
    CHECK_FALSE(takes_the_first(version, Addresses::descending));
  }
  for (const char* version : {"2.13", "2.14", "main"}) {
    CAPTURE(version);
    CHECK(takes_the_first(version, Addresses::ascending));
    CHECK(takes_the_first(version, Addresses::descending));
  }
}

TEST_CASE("a smaller block goes before one that is older") {
  Bench bench({}, 80 * kGiB, "2.13", Addresses::descending);
  const BlockHandle large = bench.malloc(60 * kMiB);
  const BlockHandle small = bench.malloc(40 * kMiB);
  const Address of_small = bench.allocator.address(small);
  bench.allocator.free(large);
  bench.allocator.free(small);
  CHECK(bench.allocator.address(bench.malloc(40 * kMiB)) == of_small);
}

TEST_CASE("pieces of a segment have its rank, and lie by address within it") {
  // Two segments of 20 MiB, each split in a live lower half and a free rest of the same size; then each lower half is
  // free as well, split anew, and what is left of the older segment is taken first.
  Bench bench({}, 80 * kGiB, "2.13", Addresses::descending);
  const BlockHandle a = bench.malloc(5 * kMiB);
  const Address older = bench.allocator.address(a);
  bench.malloc(5 * kMiB);
  bench.malloc(10 * kMiB);  // the older segment is full
  const BlockHandle b = bench.malloc(5 * kMiB);
  bench.malloc(15 * kMiB);  // a segment of its own: 10 MiB and more are not put into one of 20
  bench.allocator.free(b);
  bench.allocator.free(a);
  bench.malloc(15 * kMiB);
  CHECK(bench.allocator.address(bench.malloc(5 * kMiB)) == older);
  Bench within({}, 80 * kGiB, "2.13");
  const BlockHandle low = within.malloc(5 * kMiB);
  const Address at = within.allocator.address(low);
  within.malloc(2 * kMiB);
  const BlockHandle high = within.malloc(5 * kMiB);
  within.malloc(8 * kMiB);
  within.allocator.free(high);
  within.allocator.free(low);
  CHECK(within.allocator.address(within.malloc(5 * kMiB)) == at);
}

TEST_CASE("caches are released by creation from 2.13 on") {
  const auto freed = [](const char* version) {
    Bench bench({}, 80 * kGiB, version, Addresses::descending);
    const BlockHandle first = bench.malloc(40 * kMiB);
    const BlockHandle second = bench.malloc(40 * kMiB);
    const Address of_first = bench.allocator.address(first);
    bench.allocator.free(first);
    bench.allocator.free(second);
    bench.list.events.clear();
    bench.allocator.empty_cache();
    return bench.list.events.front().address == of_first;
  };
  CHECK_FALSE(freed("2.12"));
  CHECK(freed("2.13"));
}

TEST_CASE("only from 2.13 on are events polled while requests are routed to a pool") {
  const auto served = [](const char* version) {
    Bench bench({}, 80 * kGiB, version);
    const PoolId pool = bench.allocator.create_pool({});
    const BlockHandle block = bench.malloc(40 * kMiB, kComputeStream, pool);
    bench.allocator.record_stream(block, StreamId{1});
    bench.allocator.free(block);
    bench.events.completed = 1;
    bench.malloc(40 * kMiB, kComputeStream, pool);
    return bench.all().segment.current == 1;
  };
  CHECK_FALSE(served("2.12"));
  CHECK(served("2.13"));
}

}  // namespace
}  // namespace foreshard
