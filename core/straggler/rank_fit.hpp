// What makes the ranks of one recording differ: by how much each GPU, host and group of links is slower than the
// others, and which kernels only one rank runs.
//
// How: kernels that every rank runs equally often are held against one another, each by the lower quartile of those of
// its times beside which nothing ran on any of the ranks (runs_beside.hpp): beside collectives it takes longer, and
// most where a rank waits. A rank's factor is the median of its kernels' factors over those of the middle rank, each
// counted by its time. Hosts likewise, by the time from one launch to the next, but for those that a full launch queue
// blocked (kBlockedLaunch) on any rank. Of an even number of ranks the middle one is the faster of the two there
// (quantile.hpp). Own kernels: kernel_kinds.hpp; groups of links: group_fit.hpp.
//
// Who: cli's `fit`. Pure: a Run with `rank_ops` in, plain data out; deterministic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/run/run.hpp"
#include "core/straggler/fitted_factor.hpp"
#include "core/straggler/group_fit.hpp"
#include "core/straggler/kernel_kinds.hpp"

namespace foreshard {

struct RankFit {
  std::uint32_t rank = 0;
  FittedFactor kernels;
  FittedFactor host;
  std::optional<OwnKernels> own;  ///< none where they take less than kAlikeKernels of the step's kernel time
};

struct RanksFit {
  std::uint32_t world = 0;
  /// rank_shapes.hpp: kernels of ranks that were given other batches or lengths are other kernels, and none are held
  /// against one another then.
  std::vector<RankShape> shapes;
  std::uint32_t steps = 0;             ///< that were looked at
  std::vector<RankFit> ranks;          ///< by rank
  std::vector<GroupFit> groups;        ///< those that are slower; none where a job has one group of a shape
  std::vector<GroupFit> alike_groups;  ///< the other ones of the groups that have another of their shape
  std::vector<GroupReading> readings;  ///< of all groups of which all ranks are recorded
  /// Of an import the rank whose times a plan of it repeats; none of a plan, whose source is not among its ranks.
  std::optional<std::uint32_t> source;
  ComparedLinks links;

  /// The factors and own kernels of `source`; null: none.
  [[nodiscard]] const RankFit* source_rank() const;
};

/// Ranks whose factors are closer to 1 than this, and than kAlikeKernels (kernel_kinds.hpp), are alike. Measured on the
/// eleven ranks of 4 and 8 x H200 where nothing is wrong (every_l1b, and w8_l1b_slow but for its rank 5; PyTorch 2.11,
/// one profiled step): hosts, which are far ahead of their GPUs there, are within 47 %.
inline constexpr double kAlikeHosts = 0.5;

/// A plan that shows one rank of each group of equal ones: what differs in it is what was asked for, and how many are
/// like which it does not say.
[[nodiscard]] bool is_folded_plan(const Run& run);

/// None where the run holds not two ranks, no whole step of theirs (compared_steps.hpp), or is_folded_plan().
[[nodiscard]] std::optional<RanksFit> fit_ranks(const Run& run);

}  // namespace foreshard
