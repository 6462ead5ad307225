// Random programs on an H200 under PyTorch 2.11, whose recordings are in the repository (allocator/README.md): garbage
// collection with several streams, retries with max_split_size_mb, expandable segments with record_stream.
#include "tests/reference/allocator_recording.hpp"

namespace foreshard {
namespace {

TEST_CASE("the repository's allocator recordings replay exactly, whether the memory fraction is told or not") {
  const auto stems = test::recordings("tests/reference/allocator");
  CHECK(stems.size() == 3);
  for (const auto& stem : stems) test::check_program(stem);
}

}  // namespace
}  // namespace foreshard
