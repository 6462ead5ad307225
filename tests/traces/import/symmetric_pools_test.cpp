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
