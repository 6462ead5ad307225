// malloc and free with the default configuration: caching allocator 7.1, 3.2, 3.3, 5.
#include "tests/catch.hpp"
#include "tests/core/allocator/harness.hpp"

namespace foreshard {
namespace {

using test::Bench;

struct Row {
  Bytes reserved, allocated, requested;
  std::int64_t split_count;
  Bytes split_bytes;
  bool operator==(const Row&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.reserved << ' ' << row.allocated << ' ' << row.requested << ' ' << row.split_count << ' '
             << row.split_bytes;
}

Row row(const Bench& bench) {
  const StatisticGroup& all = bench.all();
  return {static_cast<Bytes>(all.reserved_bytes.current), static_cast<Bytes>(all.allocated_bytes.current),
          static_cast<Bytes>(all.requested_bytes.current), all.inactive_split.current,
          static_cast<Bytes>(all.inactive_split_bytes.current)};
}

TEST_CASE("the worked example of the allocator's description") {
  Bench bench;
  const BlockHandle a = bench.malloc(1000);
  CHECK(bench.list.take() == "segment_alloc 2097152, alloc 1000");
  CHECK(row(bench) == Row{2097152, 1024, 1000, 1, 2096128});
  const BlockHandle b = bench.malloc(1048576);
  CHECK(row(bench) == Row{2097152, 1049600, 1049576, 1, 1047552});
  const BlockHandle c = bench.malloc(1048577);
  CHECK(bench.list.take() == "alloc 1048576, segment_alloc 20971520, alloc 1048577");
  CHECK(row(bench) == Row{23068672, 2098688, 2098153, 2, 20969984});
  const BlockHandle d = bench.malloc(11000000);
  CHECK(bench.allocator.block_size(d) == 11000320);
  CHECK(row(bench) == Row{23068672, 13099008, 13098153, 2, 9969664});
  const BlockHandle e = bench.malloc(12000000);
  CHECK(bench.allocator.block_size(e) == 12582912);
  CHECK(row(bench) == Row{35651584, 25681920, 25098153, 2, 9969664});
  const BlockHandle f = bench.malloc(3145728);
  CHECK(row(bench) == Row{35651584, 28827648, 28243881, 2, 6823936});
  bench.allocator.free(a);
  CHECK(row(bench) == Row{35651584, 28826624, 28242881, 3, 6824960});
  bench.allocator.free(c);
  CHECK(row(bench) == Row{35651584, 27777536, 27194304, 4, 7874048});
  bench.list.take();
  bench.malloc(12582912);
  CHECK(bench.list.take() == "segment_alloc 12582912, alloc 12582912");
  CHECK(row(bench) == Row{48234496, 40360448, 39777216, 4, 7874048});
  bench.allocator.free(f);
  CHECK(row(bench) == Row{48234496, 37214720, 36631488, 4, 11019776});
  bench.allocator.free(b);
  CHECK(row(bench) == Row{48234496, 36166144, 35582912, 2, 9971200});
}

TEST_CASE("best fit takes the smallest block, and of equal ones the lowest") {
  Bench bench;
  const BlockHandle a = bench.malloc(40 * kMiB);
  const BlockHandle b = bench.malloc(30 * kMiB);
  const BlockHandle c = bench.malloc(30 * kMiB);
  const Address lowest = bench.allocator.address(b);
  for (const BlockHandle block : {a, c, b}) bench.allocator.free(block);
  const BlockHandle first = bench.malloc(30 * kMiB);
  CHECK(bench.allocator.address(first) == lowest);
  const BlockHandle other_stream = bench.malloc(30 * kMiB, StreamId{7});
  CHECK(bench.allocator.block_size(other_stream) == 30 * kMiB);
  CHECK(bench.all().reserved_bytes.current == static_cast<std::int64_t>(130 * kMiB));
}

TEST_CASE("a large block is split only where more than 1 MiB remains") {
  Bench bench;
  CHECK(bench.allocator.block_size(bench.malloc(12 * kMiB - 512)) == 12 * kMiB);
  const BlockHandle whole = bench.malloc(30 * kMiB);
  bench.allocator.free(whole);
  const BlockHandle slack = bench.malloc(29 * kMiB);
  CHECK(bench.allocator.block_size(slack) == 30 * kMiB);
  bench.allocator.free(slack);
  const BlockHandle split = bench.malloc(29 * kMiB - 512);
  CHECK(bench.allocator.block_size(split) == 29 * kMiB - 512);
}

TEST_CASE("a free block keeps a stale requested size") {
  Bench bench;
  const BlockHandle a = bench.malloc(1000);
  const BlockHandle b = bench.malloc(2000);
  bench.allocator.free(a);
  std::vector<SnapshotSegment> segments = bench.allocator.snapshot();
  REQUIRE(segments.size() == 1);
  CHECK(segments[0].small_pool);
  CHECK(segments[0].requested_size == 2000);
  const Address base = segments[0].address;
  CHECK(segments[0].blocks == std::vector<SnapshotBlock>{{base, 1024, 1000, BlockState::inactive},
                                                         {base + 1024, 2048, 2000, BlockState::live},
                                                         {base + 3072, 2 * kMiB - 3072, 0, BlockState::inactive}});
  bench.allocator.free(b);
  segments = bench.allocator.snapshot();
  CHECK(segments[0].blocks == std::vector<SnapshotBlock>{{base, 2 * kMiB, 2000, BlockState::inactive}});
}

TEST_CASE("a request of 2^60 bytes fails at once and leaves no trace") {
  Bench bench;
  CHECK_FALSE(bench.allocator.malloc(Bytes{1} << 60, kComputeStream).has_value());
  CHECK(bench.list.events.empty());
  CHECK(bench.allocator.statistics().num_ooms == 0);
}

TEST_CASE("peaks are those since the last reset") {
  Bench bench;
  const BlockHandle a = bench.malloc(100 * kMiB);
  const BlockHandle b = bench.malloc(5 * kMiB);
  bench.allocator.free(a);
  CHECK(bench.allocator.peaks() == MemoryPeaks{105 * kMiB, 105 * kMiB, 105 * kMiB, 120 * kMiB});
  bench.allocator.reset_peak_statistics();
  CHECK(bench.allocator.peaks() == MemoryPeaks{5 * kMiB, 5 * kMiB, 5 * kMiB, 120 * kMiB});
  bench.allocator.free(b);
}

}  // namespace
}  // namespace foreshard
