// Recordings with the statistics of torch.cuda.memory_stats beside them, and what a replay of one must agree in.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/allocator/replay.hpp"
#include "tests/catch.hpp"
#include "traces/pytorch/snapshot_file.hpp"

namespace foreshard::test {

using nlohmann::json;
namespace fs = std::filesystem;

// torch.cuda.get_device_properties(0).total_memory of the H200s that were recorded (caching allocator 4.1: their
// virtual ranges are 9/8 of it).
inline constexpr Bytes kDeviceTotal = 150'109'880'320;

/// NAME of each NAME.pickle.xz of the folder, sorted.
inline std::vector<fs::path> recordings(const std::string& folder) {
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

inline json read_json(const fs::path& stem, const std::string& suffix) {
  std::ifstream file(stem.string() + suffix);
  REQUIRE(file.good());
  return json::parse(file);
}

/// The value of a memory_stats key such as "active_bytes.all.peak"; fails the test for an unknown key.
inline std::int64_t value_of(const AllocatorStatistics& statistics, const std::string& key) {
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

inline void check_statistics(const AllocatorStatistics& replayed, const json& recorded) {
  for (const auto& [key, value] : recorded.items()) {
    if (key == "max_split_size") continue;  // an option, not a statistic
    INFO(key);
    CHECK(value_of(replayed, key) == value.get<std::int64_t>());
  }
}

inline Snapshot read(const fs::path& stem) {
  auto file = traces::read_snapshot(stem.string() + ".pickle.xz");
  if (!file) FAIL(file.error().text());
  return std::move(file->snapshot);
}

inline void check_replay(const Result<ReplayReport>& report) {
  if (!report) FAIL(report.error().text());
  INFO(report->first_mismatch);
  CHECK(report->mismatches == 0);
  CHECK(report->unknown_requested_sizes == 0);
  CHECK(report->unexplained_releases == 0);
}

/// A random program's recording: exact with the fraction that its json gives, and with nothing given.
inline void check_program(const fs::path& stem) {
  INFO(stem.filename().string());
  const json about = read_json(stem, ".json");
  const Snapshot snapshot = read(stem);
  const double fraction = about["config"].value("fraction", 0.0);
  ReplayOptions options;
  options.total_memory = kDeviceTotal;
  if (fraction > 0) options.memory_fraction = fraction;
  const auto told = verify(snapshot, options);
  check_replay(told);
  check_statistics(told->statistics, about["stats"]);

  const auto found = verify(snapshot, {});
  if (!found) FAIL(found.error().text());
  INFO(found->first_mismatch);
  CHECK(found->mismatches == 0);
  CHECK_FALSE(found->limit_contradicts);
  CHECK(found->statistics.num_sync_all_streams == told->statistics.num_sync_all_streams);
  if (found->unexplained_releases == 0) check_statistics(found->statistics, about["stats"]);
  if (!found->limit) return;
  const auto limit = static_cast<Bytes>(fraction * static_cast<double>(kDeviceTotal));
  CHECK(found->limit->least <= limit);
  CHECK(limit < found->limit->below);
}

}  // namespace foreshard::test
