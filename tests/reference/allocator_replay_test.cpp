// The reference runs of PyTorch 2.11, replayed: every entry, the final segments and blocks, and the
// statistics that torch.cuda.memory_stats gave. Nothing may differ by a byte.
//
// The recordings are in the folder that the environment's FORESHARD_TRUTH names; without it the tests are skipped.
#include "tests/reference/allocator_recording.hpp"
#include "tests/truth_folder.hpp"

namespace foreshard {
namespace {

using namespace test;

TEST_CASE("random programs replay exactly, with PyTorch's statistics") {
  const auto folder = truth_folder("allocator");
  if (!folder) FORESHARD_SKIP(kNoTruth);
  for (const fs::path& stem : recordings(*folder)) check_program(stem);
}

TEST_CASE("training runs replay exactly, with PyTorch's statistics of each step") {
  const auto folder = truth_folder("runs");
  if (!folder) FORESHARD_SKIP(kNoTruth);
  for (const fs::path& stem : recordings(*folder)) {
    INFO(stem.filename().string());
    const json measured = read_json(stem, ".json");
    const json about = read_json(stem, ".about.json");
    const Snapshot snapshot = read(stem);
    ReplayOptions options;
    options.total_memory = kDeviceTotal;
    options.step_starts = annotation_starts(snapshot, "## zero grad ##");
    const std::string gather = about["settings"].value("all_gather", "nccl");
    // The pool of symmetric memory is made no_split (caching allocator 6.4).
    if (gather == "copy-engine" || gather == "symmetric")
      for (const SnapshotSegment& segment : snapshot.segments)
        if (segment.pool_id.second != 0)
          options.pools.push_back({segment.pool_id, {.no_split = true, .kind = MemoryKind::symmetric}});
    const auto report = verify(snapshot, options);
    check_replay(report);
    const json& steps = measured["memory_steps"];
    REQUIRE(report->steps.size() == steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      INFO("step " << i);
      check_statistics(report->steps[i], steps[i]);
    }
  }
}

}  // namespace
}  // namespace foreshard
