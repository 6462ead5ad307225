// What find_stragglers() found, in sentences: the same in the report, the JSON and the page.
#pragma once

#include <string>
#include <vector>

#include "core/straggler/straggler.hpp"

namespace foreshard {

/// The answer first, then its reasons; without a full stop.
[[nodiscard]] std::vector<std::string> straggler_sentences(const Stragglers& found);

}  // namespace foreshard
