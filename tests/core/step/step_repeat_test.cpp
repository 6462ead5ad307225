// When a step begins as the one before did.
#include "core/step/step_repeat.hpp"

#include "tests/catch.hpp"

using namespace foreshard;

namespace {

std::vector<SnapshotSegment> memory() {
  SnapshotSegment segment;
  segment.address = 0x1000;
  segment.total_size = 4096;
  segment.blocks = {{0x1000, 1024, 1000, BlockState::live}, {0x1400, 3072, 7, BlockState::inactive}};
  return {segment};
}

}  // namespace

TEST_CASE("a step begins alike where every block is as it was") {
  CHECK(begins_alike(memory(), memory()));
  CHECK(begins_alike({}, {}));
  CHECK_FALSE(begins_alike(memory(), {}));
  auto other = memory();
  other[0].blocks[1].requested_size = 8;  // of a free block: what was asked for before
  CHECK(begins_alike(other, memory()));
  other = memory();
  other[0].blocks[0].requested_size = 999;
  CHECK_FALSE(begins_alike(other, memory()));
  other = memory();
  other[0].blocks[0].state = BlockState::inactive;
  CHECK_FALSE(begins_alike(other, memory()));
  other = memory();
  other[0].stream = 7;
  CHECK_FALSE(begins_alike(other, memory()));
}

TEST_CASE("a block that waits for an event comes back when the device says so") {
  auto waits = memory();
  waits[0].blocks[0].state = BlockState::pending_free;
  CHECK_FALSE(begins_alike(waits, waits));
}
