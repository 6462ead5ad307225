// What makes the ranks of one recording differ: by how much each GPU, host and group of links is slower than the
// others, and which kernels only one rank runs.
//
// How: kernels that every rank runs equally often are held against one another, each by its least disturbed runs (the
// lower quartile of its times: beside collectives it takes longer, and most where a rank waits). A rank's factor is the
// median of its kernels' factors over those of the middle rank, each counted by its time. Hosts likewise, by the time
// from one launch to the next. Collectives move bytes from the last rank's start on: the groups of one shape are held
// against one another.
//
// Who: cli's `fit`. Pure: a Run with `rank_ops` in, plain data out; deterministic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard {

/// A factor on times: 1.2 takes a fifth longer than the middle rank's.
struct FittedFactor {
  double value = 1;
  double spread = 0;          ///< half of the middle half of what it is the median of, relative
  std::uint32_t samples = 0;  ///< kinds of kernels, or of launches, that were held against one another; 0: none

  /// Further from 1 than the kinds differ among themselves, and than `least`.
  [[nodiscard]] bool differs(double least) const;
};

/// Kernels that one rank runs more, or less, often than the others, a step on average.
struct OwnKernels {
  std::string name;  ///< the one that takes most
  Nanoseconds time;  ///< of all of them, beyond the middle rank's; negative: the others run more
  double launches = 0;
};

struct RankFit {
  std::uint32_t rank = 0;
  FittedFactor kernels;
  FittedFactor host;
  std::optional<OwnKernels> own;
};

/// A group of one communicator whose collectives move more slowly than the same ones of the middle group.
struct GroupFit {
  std::vector<std::uint32_t> ranks;
  std::string collective;  ///< "all-gather"
  FittedFactor time;
};

struct RanksFit {
  std::uint32_t world = 0;
  std::uint32_t steps = 0;       ///< that were looked at
  std::vector<RankFit> ranks;    ///< by rank
  std::vector<GroupFit> groups;  ///< those that differ, by lowest rank; none where a job has one group of a shape
};

/// Ranks whose factors are closer to 1 than this are alike: four H200s of one host, where nothing is wrong (every_l1b,
/// PyTorch 2.11), differ by 0.7 % in their kernels and by 24 % in their hosts, which are far ahead of their GPUs.
inline constexpr double kAlikeKernels = 0.02;
inline constexpr double kAlikeHosts = 0.3;
/// Groups of equal shape, as the accuracy that isolated collectives are held to.
inline constexpr double kAlikeLinks = 0.05;

/// None where the run holds not two ranks, or no step of them. The first of several steps is left out, as
/// find_stragglers() does.
[[nodiscard]] std::optional<RanksFit> fit_ranks(const Run& run);

}  // namespace foreshard
