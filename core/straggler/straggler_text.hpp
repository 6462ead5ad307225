// What find_stragglers() found, in sentences: the same in the report, the JSON and the page.
#pragma once

#include <string>
#include <vector>

#include "core/straggler/straggler.hpp"

namespace foreshard {

/// The answer first, then its reasons; without a full stop.
[[nodiscard]] std::vector<std::string> straggler_sentences(const Stragglers& found);

/// "32 more (47.82 ms) and 32 more memsets and copies (0.07 ms) a step than the middle rank; most of that time:
/// nvjet_sm90 GEMM"
[[nodiscard]] std::string own_kernels_words(const OwnKernels& own);

}  // namespace foreshard
