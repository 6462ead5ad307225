// How a job whose ranks wait for one another for ever is told: in two lines, and as JSON.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "core/run/run.hpp"
#include "sim/predict/hang.hpp"

namespace foreshard::cli {

/// Who waits; then when PyTorch ends it, and what is lost.
[[nodiscard]] std::vector<std::string> hang_lines(const sim::Hang& hang);

/// Key `hang` of plan's JSON (docs/plan.md).
[[nodiscard]] Json hang_json(const sim::Hang& hang);

/// The same of a stored plan; null where it does not hang.
[[nodiscard]] Json stored_hang(const Run& run);
/// How it ends, and a table of who waits for whom since when. Of a run that has a stored_hang().
void print_stored_hang(std::ostream& out, const Run& run);

}  // namespace foreshard::cli
