// What a plan is told of ranks that are unlike the others, and what it tells of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/models/extra_gemms.hpp"
#include "core/straggler/rank_members.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/links.hpp"
#include "sim/ranks/rank_traits.hpp"

namespace foreshard::sim {

/// As RankTraits::dead_from, or a SkippedUnit's: the step whose times are reported.
inline constexpr std::uint32_t kInReportedStep = kNeverDies - 1;

/// An FSDP unit that a rank's data do not come to (core/adapt/skip_unit.hpp).
struct SkippedUnit {
  std::string unit;  ///< its name, as Unit::name
  std::uint32_t from_step = kInReportedStep;
};

/// A rank that is unlike the others; factors as RankTraits's.
struct RankDifference {
  std::uint32_t rank = 0;
  double kernels = 1;
  double host = 1;
  /// What it runs instead, adapted to the same settings; null: what the others run. Not owned.
  const Workload* workload = nullptr;
  std::uint32_t seq = 0;  ///< tokens a sample of `workload`, which is the others' model's; 0: it is of the job's length
  std::optional<ExtraGemms> gemms = {};  ///< what it multiplies beside that; predict() makes it a workload of its own
  std::uint32_t dead_from = kNeverDies;  ///< the step from which on its host issues nothing
  std::optional<SkippedUnit> skips = {};
};

/// What is unlike the rest of a job.
struct Differences {
  std::vector<RankDifference> ranks;
  std::vector<SlowAdapter> slow_adapters;
  std::vector<SlowLink> slow_links;
  BackgroundLoad background = {};

  [[nodiscard]] bool lengths_differ() const {
    return std::any_of(ranks.begin(), ranks.end(), [](const RankDifference& rank) { return rank.seq > 0; });
  }
  [[nodiscard]] bool links_alike() const { return slow_adapters.empty() && slow_links.empty() && !background.any(); }
  [[nodiscard]] bool empty() const { return ranks.empty() && links_alike(); }
};

/// Of PredictRequest::kept_ranks: all of them; and none, for whom the numbers are enough: neither what ranks did nor
/// what each of several differences costs is told.
inline constexpr std::uint32_t kAllRanks = UINT32_MAX;
inline constexpr std::uint32_t kNoRanks = UINT32_MAX - 1;

/// Ranks that nothing tells apart.
struct RankGroup {
  std::uint32_t first = 0;  ///< the lowest of them
  std::uint32_t count = 0;
  RankTraits traits;
  bool own_workload = false;  ///< a program that is not the others'
  /// By what the slowest NVLink, and the slowest adapters, of the groups that they are in are slower: 1 where none is.
  double link_slowdown = 1;
  double network_slowdown = 1;
  double background_slowdown = 1;     ///< by what other traffic makes their slowest network take longer
  std::vector<RankRun> members = {};  ///< all of them
  bool kept = false;                  ///< Run::rank_ops has the ops of its first rank
  std::optional<SkippedUnit> skips = {};
  std::string own_program = {};          ///< of an own program: "its own recording", "the model llama-1b"; by predict()
  std::optional<ExtraGemms> gemms = {};  ///< RankDifference::gemms; by predict()
  std::uint32_t seq = 0;                 ///< RankDifference::seq; by predict()
};

}  // namespace foreshard::sim
