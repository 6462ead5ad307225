// What another PyTorch version costs, in lines of plan's answer and in its JSON.
//
// Who: plan_answer and prediction_report. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "sim/sweep/upgrade.hpp"

namespace foreshard::cli {

/// The whole change in one line, a line for each rule that moves something, those that move nothing, and the plan of
/// the recording itself where that is another.
[[nodiscard]] std::vector<std::string> upgrade_lines(const sim::Upgrade& upgrade);

/// The key `upgrade` of docs/plan.md.
[[nodiscard]] Json upgrade_json(const sim::Upgrade& upgrade);

}  // namespace foreshard::cli
