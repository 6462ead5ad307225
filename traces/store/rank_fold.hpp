// Ranks of a plan that do the same at the same times: a store has the rows of one of them, and of each other that it is
// alike. Exact: what is read is what was written.
//
// Private to traces/store. Pure; deterministic. Where nothing is alike, as in a recording, nothing is folded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"

namespace foreshard::traces {

/// A row of `rank_fold`: `rank` has the rows of `alike` in rank_op, which come before, with other communicators.
struct RankFold {
  std::uint32_t rank = 0;
  std::uint32_t alike = 0;
  std::string communicators;  ///< "4,7": for those of `alike`'s rows, in the order in which they first come
};

/// So many ranks at most are folded, that a small store does not become a large run (a plan lists no more than 16 that
/// could be alike).
inline constexpr std::size_t kMaxFolds = 64;

struct FoldedRanks {
  std::vector<RankFold> folds;
  std::vector<RankOpRecord> rank_ops;  ///< of ranks that are not folded
};

[[nodiscard]] FoldedRanks fold_ranks(const Run& run);

/// Puts the rows of folded ranks back, each rank's in the order of `run.ranks`. Empty, or what is wrong with them.
[[nodiscard]] std::string unfold_ranks(const std::vector<RankFold>& folds, Run& run);

}  // namespace foreshard::traces
