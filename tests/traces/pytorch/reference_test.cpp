// Every file of the reference runs is read without oddities; what their parts say agrees. FORESHARD_TRUTH names
// the folder of the reference runs.
#include <algorithm>
#include <filesystem>
#include <vector>

#include "tests/catch.hpp"
#include "tests/truth_folder.hpp"
#include "traces/pytorch/about.hpp"
#include "traces/pytorch/profiler_trace.hpp"
#include "traces/pytorch/snapshot_file.hpp"

namespace foreshard::traces {
namespace {

namespace fs = std::filesystem;

/// Files under the folder whose names end so, sorted.
std::vector<std::string> reference_files(const std::string& folder, const std::string& ending) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().string().ends_with(ending)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  CHECK(!files.empty());
  return files;
}

/// What was lost or damaged; oddities that lose nothing are left out.
std::string losses_of(const std::vector<ImportStat>& stats) {
  std::string text;
  for (const ImportStat& stat : stats)
    if (stat.severity != ImportStat::Severity::info) text += stat.name + " " + std::to_string(stat.count) + "; ";
  return text;
}

TEST_CASE("every reference snapshot is read and adds up") {
  const auto folder = test::truth_folder();
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  for (const std::string& path : reference_files(*folder, ".pickle.xz")) {
    INFO(path);
    const auto file = read_snapshot(path);
    INFO((file ? "" : file.error().text()));
    REQUIRE(file);
    CHECK(losses_of(file->stats) == "");
    CHECK(file->pickle_protocol >= 2);
    CHECK(file->snapshot.events.size() > 100);
    // The final state follows from the trace: live blocks are allocs without free_requested, and the one 512-byte
    // block that was there before the recording began.
    std::ptrdiff_t live = 0, expected = 0;
    for (const SnapshotSegment& segment : file->snapshot.segments)
      for (const SnapshotBlock& block : segment.blocks) live += block.state == BlockState::live ? 1 : 0;
    for (const AllocatorEvent& event : file->snapshot.events) {
      expected += event.action == AllocatorAction::alloc ? 1 : 0;
      expected -= event.action == AllocatorAction::free_requested ? 1 : 0;
    }
    CHECK(std::abs(live - expected) <= 1);
    std::ptrdiff_t open = 0;
    for (const SnapshotAnnotation& annotation : file->snapshot.annotations) open += annotation.start ? 1 : -1;
    CHECK(std::abs(open) <= 1);
  }
}

TEST_CASE("every reference trace is read, with all its work issued by a call") {
  const auto folder = test::truth_folder();
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  for (const std::string& path : reference_files(*folder, ".trace.json.xz")) {
    INFO(path);
    const auto trace = read_profiler_trace(path);
    INFO((trace ? "" : trace.error().text()));
    REQUIRE(trace);
    CHECK(losses_of(trace->run.import_stats) == "");
    REQUIRE(trace->world_size.has_value());
    CHECK(trace->rank < trace->world_size);
    CHECK(trace->run.info.sm_count > 0);
    std::uint64_t kept = 0, counted = 0;
    for (const char* category : {"kernel", "gpu_memcpy", "gpu_memset"})
      if (trace->events_by_category.contains(category)) counted += trace->events_by_category.at(category);
    std::uint64_t collectives = 0;
    for (const DeviceOpRecord& op : trace->run.device_ops) {
      ++kept;
      if (op.kind != DeviceOpRecord::Kind::collective) continue;
      ++collectives;
      CHECK(op.bytes > 0);
      CHECK(op.communicator.valid());
    }
    CHECK(kept == counted);
    CHECK(collectives > 0);
    CHECK(collectives % 2 == 0);  // two equal steps
  }
}

TEST_CASE("every reference about file is read") {
  const auto folder = test::truth_folder();
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  for (const std::string& path : reference_files(*folder, ".about.json")) {
    INFO(path);
    const auto about = read_about(path);
    INFO((about ? "" : about.error().text()));
    REQUIRE(about);
    CHECK(about->settings.world() > 1);
    CHECK(about->measured.has_value());
    CHECK(about->warnings.empty());
  }
}

}  // namespace
}  // namespace foreshard::traces
