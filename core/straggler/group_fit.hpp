// Groups of links that are slower than others of their shape: a collective moves bytes from its last rank's start on,
// so each group's collectives of one kind and size are held against those of the middle group.
//
// Like against like: what runs beside a collective (kernels, copies, other collectives of its ranks) makes it longer,
// and a late GPU alone changes what does. What it takes alone lies between its time and that less the time for which
// anything ran beside it, so two groups' collectives alone differ by a factor that lies in a range as well. A size
// counts by the time for which nothing ran beside it, and the factor that is told is the end of the range next to 1:
// what nothing else can explain. A collective that ran alone, as FSDP2's last reduction does, has a range of one value.
//
// Who: rank_fit.cpp. Pure; deterministic.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/run/run.hpp"
#include "core/straggler/fitted_factor.hpp"

namespace foreshard {

/// What is known of a group's collectives of one kind and size.
struct GroupReading {
  std::vector<std::uint32_t> ranks;
  CollectiveKind kind = CollectiveKind::all_gather;
  Transport transport = Transport::nccl;
  Bytes bytes = 0;
  std::uint32_t count = 0;
  double least = 0, most = 0;  ///< ns: what one takes alone lies between these
  double met = 0;              ///< ns of `most` for which other groups sent between nodes too
};

/// Factors on times of which each lies between `least` and `most`.
struct FactorRange {
  FittedFactor least, most;

  /// The end of the range next to 1, or 1 within it; the spread is what kinds, or sizes, disagree by.
  [[nodiscard]] FittedFactor sure() const;
  /// The range is so narrow that it is told as one number.
  [[nodiscard]] bool is_narrow() const;
};

/// A group of one communicator whose collectives move more slowly than the same ones of the middle group.
struct GroupFit {
  std::vector<std::uint32_t> ranks;
  CollectiveKind kind = CollectiveKind::all_gather;
  FactorRange time;
  GroupReading clearest;      ///< of the size that counts most …
  double clearest_least = 1;  ///< … and the least that it takes over the middle group's
};

/// What links could be held against one another.
struct ComparedLinks {
  std::uint32_t groups = 0;    ///< of which all ranks are recorded, with collectives in the steps
  std::uint32_t compared = 0;  ///< of those the ones that have another of their shape beside them
  std::uint32_t hidden = 0;  ///< of these the ones that may be slower by any factor: something ran beside all they did
  double furthest = 0;       ///< how far the times of the furthest of the others can be from the middle group's
};

/// Groups whose times are closer than this are alike. An assumption: there is no recording yet of all ranks of a job
/// with several groups of one shape.
inline constexpr double kAlikeLinks = 0.05;

namespace straggler_detail {

struct LinksFit {
  std::vector<GroupFit> slower;        ///< by lowest rank
  std::vector<GroupFit> alike;         ///< those of the compared ones that are not
  std::vector<GroupReading> readings;  ///< of all whole groups
  ComparedLinks compared;
};

/// Groups have one shape where their ranks, and the nodes of these, lie alike behind
/// the first; a group of which a rank was not recorded is left out, since its last rank is not known.
[[nodiscard]] LinksFit fit_links(const Run& run, const std::set<std::int32_t>& steps);

/// Of ranges with weights.
struct WeightedRange {
  double least = 1, most = 1, weight = 0;
};
[[nodiscard]] FactorRange factor_range(const std::vector<WeightedRange>& samples);

}  // namespace straggler_detail
}  // namespace foreshard
