#include "core/straggler/told_ranks.hpp"

#include <cmath>

namespace foreshard {
namespace {

/// 1 where neither differs from the middle rank, or both do equally.
double over(const FittedFactor& factor, const FittedFactor& source, double least) {
  if (!factor.differs(least) && !source.differs(least)) return 1;
  const double ratio = factor.value / source.value;
  return std::abs(ratio - 1) > least ? ratio : 1;
}

}  // namespace

std::vector<ToldRank> told_ranks(const RanksFit& fit) {
  const RankFit middle;
  const RankFit& source = fit.source_rank() == nullptr ? middle : *fit.source_rank();
  std::vector<ToldRank> out;
  for (const RankFit& rank : fit.ranks) {
    if (&rank == &source) continue;
    ToldRank told{rank.rank, 1, 1, rank.own || source.own};
    if (!told.own_recording) {
      told.kernels = over(rank.kernels, source.kernels, kAlikeKernels);
      told.host = over(rank.host, source.host, kAlikeHosts);
    }
    if (told.own_recording || told.kernels != 1 || told.host != 1) out.push_back(told);
  }
  return out;
}

}  // namespace foreshard
