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

/// "rank 1", "ranks 1–2". Requires: not empty, ascending.
[[nodiscard]] std::string ranks_words(const std::vector<std::uint32_t>& ranks);

/// Which step a plan is of that repeats another rank's times for `late`: "if rank 1 keeps up", or where ranks have more
/// work than the other one (ranks_with_more()) "if ranks 1–2 had no more work".
[[nodiscard]] std::string keeps_up_words(std::uint32_t late, const std::vector<std::uint32_t>& with_more);

/// What a section about it is called: "Rank 1 is late", "Rank 1 has more work", "Ranks".
[[nodiscard]] std::string straggler_title(const Stragglers& found);

/// "32 more (47.82 ms) and 32 more memsets and copies (0.07 ms) a step than the middle rank; most of that time:
/// nvjet_sm90 GEMM"
[[nodiscard]] std::string own_kernels_words(const OwnKernels& own);

}  // namespace foreshard
