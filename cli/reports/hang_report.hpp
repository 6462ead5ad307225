// How a job whose ranks wait for one another for ever is told: in two lines, and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "sim/predict/hang.hpp"

namespace foreshard::cli {

/// Who waits; then when PyTorch ends it, and what is lost.
[[nodiscard]] std::vector<std::string> hang_lines(const sim::Hang& hang);

/// Key `hang` of plan's JSON (docs/plan.md).
[[nodiscard]] Json hang_json(const sim::Hang& hang);

}  // namespace foreshard::cli
