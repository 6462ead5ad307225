// What a step's time is by phase, as one table: rows and columns add up as they are printed.
//
// Who: plan, explain --time --detail; compare for the parts of its steps. Pure text.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "core/explain_time/phase_times.hpp"

namespace foreshard::cli {

/// `step`: the whole of which `rows` are the parts, in a row of its own below them.
void print_phase_table(std::ostream& out, const std::string& title, const std::vector<PhaseTime>& rows,
                       const PhaseTime& step);

/// compute, exposed communication, host and other of a step, ms with two decimals: compute and exposed communication
/// rounded, as every line has them, and the last two so that all add up to the step as it is printed. Where neither of
/// those has what rounding took too much, they may be 0.01 off.
[[nodiscard]] std::vector<double> printed_phase_parts(const PhaseTime& step);

/// The same of a step that is reported to take `reported`, with what of that is on no timeline behind them: all five
/// add up to it as it is printed.
[[nodiscard]] std::vector<double> printed_step_parts(const PhaseTime& step, Nanoseconds reported);

}  // namespace foreshard::cli
