// What find_stragglers() found, in sentences: the same in the report, the JSON and the page.
#pragma once

#include <string>
#include <vector>

#include "core/straggler/straggler.hpp"

namespace foreshard {

/// The answer first, then its reasons; without a full stop.
[[nodiscard]] std::vector<std::string> straggler_sentences(const Stragglers& found);

/// "rank 1 has 4 × 1024 tokens where rank 0 has 4 × 2048": those with fewer beside those with most; empty of none.
[[nodiscard]] std::string rank_shapes_words(const std::vector<RankShape>& shapes);

/// Which step a plan is of that repeats another rank's times for `late`: "if rank 1 keeps up", or where that rank has
/// more work than all others "if rank 1 had no more work".
[[nodiscard]] std::string keeps_up_words(std::uint32_t late, const std::vector<RankShape>& shapes);

/// "32 more (47.82 ms) and 32 more memsets and copies (0.07 ms) a step than the middle rank; most of that time:
/// nvjet_sm90 GEMM"
[[nodiscard]] std::string own_kernels_words(const OwnKernels& own);

}  // namespace foreshard
