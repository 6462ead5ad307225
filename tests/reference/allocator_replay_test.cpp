// The reference runs of PyTorch 2.11, replayed: every entry, the final segments and blocks, and the
// statistics that torch.cuda.memory_stats gave. Nothing may differ by a byte.
//
// The recordings are in the folder that the environment's FORESHARD_TRUTH names; without it the tests are skipped.
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/allocator/replay.hpp"
#include "tests/catch.hpp"
#include "tests/truth_folder.hpp"
#include "traces/pytorch/snapshot_file.hpp"

namespace foreshard {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// torch.cuda.get_device_properties(0).total_memory of the H200s that were recorded, to the MiB
// (caching allocator 4.1: their virtual ranges are 9/8 of it).
constexpr Bytes kDeviceTotal = 143155 * kMiB;

/// NAME of each NAME.pickle.xz of the folder, sorted.
std::vector<fs::path> recordings(const std::string& folder) {
  std::vector<fs::path> found;
  const std::string suffix = ".pickle.xz";
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(suffix))
      found.push_back(entry.path().parent_path() / name.substr(0, name.size() - suffix.size()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

json read_json(const fs::path& stem, const std::string& suffix) {
  std::ifstream file(stem.string() + suffix);
  REQUIRE(file.good());
  return json::parse(file);
}

/// The value of a memory_stats key such as "active_bytes.all.peak"; fails the test for an unknown key.
std::int64_t value_of(const AllocatorStatistics& statistics, const std::string& key) {
  const std::map<std::string, std::int64_t> plain{{"num_alloc_retries", statistics.num_alloc_retries},
                                                  {"num_ooms", statistics.num_ooms},
                                                  {"num_sync_all_streams", statistics.num_sync_all_streams},
                                                  {"num_device_alloc", statistics.num_device_alloc},
                                                  {"num_device_free", statistics.num_device_free}};
  if (const auto it = plain.find(key); it != plain.end()) return it->second;
  const std::map<std::string, Statistic StatisticGroup::*> members{
      {"allocation", &StatisticGroup::allocation},
      {"segment", &StatisticGroup::segment},
      {"active", &StatisticGroup::active},
      {"inactive_split", &StatisticGroup::inactive_split},
      {"allocated_bytes", &StatisticGroup::allocated_bytes},
      {"reserved_bytes", &StatisticGroup::reserved_bytes},
      {"active_bytes", &StatisticGroup::active_bytes},
      {"inactive_split_bytes", &StatisticGroup::inactive_split_bytes},
      {"requested_bytes", &StatisticGroup::requested_bytes}};
  const std::size_t dot = key.find('.'), last = key.rfind('.');
  const std::string group_name = key.substr(dot + 1, last - dot - 1);
  const StatisticGroup& group = group_name == "all"          ? statistics.all
                                : group_name == "small_pool" ? statistics.small_pool
                                                             : statistics.large_pool;
  const Statistic& statistic = group.*members.at(key.substr(0, dot));
  const std::string field = key.substr(last + 1);
  if (field == "current") return statistic.current;
  if (field == "peak") return statistic.peak;
  return field == "allocated" ? statistic.allocated : statistic.freed;
}

void check_statistics(const AllocatorStatistics& replayed, const json& recorded) {
  for (const auto& [key, value] : recorded.items()) {
    if (key == "max_split_size") continue;  // an option, not a statistic
    INFO(key);
    CHECK(value_of(replayed, key) == value.get<std::int64_t>());
  }
}

Snapshot read(const fs::path& stem) {
  auto file = traces::read_snapshot(stem.string() + ".pickle.xz");
  if (!file) FAIL(file.error().text());
  return std::move(file->snapshot);
}

void check_replay(const Result<ReplayReport>& report) {
  if (!report) FAIL(report.error().text());
  INFO(report->first_mismatch);
  CHECK(report->mismatches == 0);
  CHECK(report->unknown_requested_sizes == 0);
  CHECK(report->unexplained_releases == 0);
}

TEST_CASE("random programs replay exactly, with PyTorch's statistics") {
  const auto folder = test::truth_folder("allocator");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  for (const fs::path& stem : recordings(*folder)) {
    INFO(stem.filename().string());
    const json about = read_json(stem, ".json");
    const Snapshot snapshot = read(stem);
    ReplayOptions options;
    options.total_memory = kDeviceTotal;
    if (const double fraction = about["config"].value("fraction", 0.0); fraction > 0)
      options.memory_fraction = fraction;
    const auto report = verify(snapshot, options);
    check_replay(report);
    check_statistics(report->statistics, about["stats"]);
  }
}

TEST_CASE("training runs replay exactly, with PyTorch's statistics of each step") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
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
