// How find_stragglers() is told: a table for people, and the same numbers as JSON.
#pragma once

#include <ostream>

#include "cli/terminal/output.hpp"
#include "core/straggler/straggler.hpp"

namespace foreshard::cli {

void print_stragglers(std::ostream& out, const Stragglers& found);

/// Key `ranks` of `explain --json` (docs/explain.md).
[[nodiscard]] Json stragglers_json(const Stragglers& found);

}  // namespace foreshard::cli
