#include "traces/import/symmetric_pools.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

SnapshotSegment segment(Address address, std::uint64_t pool, std::size_t blocks) {
  SnapshotSegment out;
  out.address = address;
  out.pool_id = {0, pool};
  out.total_size = 100;
  out.blocks.resize(blocks);
  return out;
}

}  // namespace

TEST_CASE("symmetric memory's pools are those whose segments are whole blocks") {
  Snapshot snapshot;
  snapshot.segments = {segment(1000, 0, 1), segment(2000, 3, 1), segment(3000, 3, 1),  // 3: gathers
                       segment(4000, 5, 1), segment(5000, 5, 2),                       // 5: a CUDA graph's
                       segment(6000, 7, 1)};                                           // 7: one at rest
  for (const auto& [action, address] : {std::pair{AllocatorAction::alloc, 2000},
                                        {AllocatorAction::free_completed, 2000},
                                        {AllocatorAction::alloc, 2000},
                                        {AllocatorAction::alloc, 6000},
                                        {AllocatorAction::alloc, 6050},
                                        {AllocatorAction::free_completed, 6000},
                                        {AllocatorAction::free_completed, 6050}}) {
    AllocatorEvent event;
    event.action = action;
    event.address = static_cast<Address>(address);
    snapshot.events.push_back(event);
  }
  Settings settings;
  CHECK(symmetric_pools(snapshot, settings).empty());
  settings.all_gather = Transport::nccl_registered;  // its MemPool splits blocks
  CHECK(symmetric_pools(snapshot, settings).empty());
  for (const bool gathers : {true, false}) {
    settings.all_gather = gathers ? Transport::copy_engine : Transport::nccl;
    settings.reduce_scatter = gathers ? Transport::nccl : Transport::symmetric;
    const auto pools = symmetric_pools(snapshot, settings);
    REQUIRE(pools.size() == 1);
    CHECK(pools[0].pool_id == std::pair<std::uint64_t, std::uint64_t>{0, 3});
    CHECK(pools[0].options.no_split);
    CHECK(pools[0].options.kind == MemoryKind::symmetric);
  }
}

namespace {

constexpr std::uint64_t kStream = 9;

SnapshotSegment large(Address address, std::uint64_t pool, Bytes total) {
  SnapshotSegment out;
  out.address = address;
  out.pool_id = {0, pool};
  out.stream = kStream;
  out.total_size = total;
  out.blocks = {{address, total, kUnknownRequestedSize, BlockState::inactive}};
  return out;
}

/// Two buffers, held one while the other is made; the second in a segment of its own, or none.
Snapshot two_buffers(Bytes second, Bytes room) {
  Snapshot snapshot;
  constexpr Address kFirst = 0x1000000, kSecond = 0x9000000;
  snapshot.segments = {large(kFirst, 3, 20 * kMiB + room), large(kSecond, 3, 20 * kMiB)};
  const auto event = [&](AllocatorAction action, Address address, Bytes size) {
    AllocatorEvent one;
    one.action = action;
    one.address = address;
    one.size = size;
    one.stream = kStream;
    snapshot.events.push_back(one);
  };
  // Segments of the default pool lay at the first address before, with two blocks.
  event(AllocatorAction::segment_alloc, kFirst, 40 * kMiB);
  event(AllocatorAction::alloc, kFirst, 512);
  event(AllocatorAction::alloc, kFirst + 512, 512);
  event(AllocatorAction::segment_free, kFirst, 40 * kMiB);
  event(AllocatorAction::segment_alloc, kFirst, 20 * kMiB + room);
  event(AllocatorAction::alloc, kFirst, 20 * kMiB);
  event(AllocatorAction::segment_alloc, kSecond, 20 * kMiB);
  event(AllocatorAction::alloc, kSecond, second);
  return snapshot;
}

}  // namespace

TEST_CASE("a segment made while another had room is of a pool that does not split, whatever the settings say") {
  const Settings settings;  // gathers through NCCL
  const auto pools = symmetric_pools(two_buffers(20 * kMiB, 30 * kMiB), settings);
  REQUIRE(pools.size() == 1);
  CHECK(pools[0].options.no_split);
  CHECK(symmetric_pools(two_buffers(20 * kMiB, 10 * kMiB), settings).empty());  // there was no room
  CHECK(symmetric_pools(two_buffers(20 * kMiB, 30 * kMiB), kCheckedPyTorch).size() == 1);
  Settings symmetric;
  symmetric.all_gather = Transport::copy_engine;
  CHECK(symmetric_pools(two_buffers(20 * kMiB, 10 * kMiB), symmetric).size() == 1);
  // A block that is live at the end, with more than it asked for.
  Snapshot live = two_buffers(20 * kMiB, 10 * kMiB);
  live.segments.front().blocks = {{live.segments.front().address, 30 * kMiB, 20 * kMiB, BlockState::live}};
  CHECK(symmetric_pools(live, settings).size() == 1);
  live.segments.front().is_expandable = true;
  CHECK(symmetric_pools(live, settings).empty());
}
