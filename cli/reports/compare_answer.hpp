// The first lines of compare's answer: what changed, by how much, and why. Used by compare_report. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/reports/compare_report.hpp"

namespace foreshard::cli {

/// One line each, without an end of line: the models where they differ, the step with its causes in the order of what
/// they account for, the peak of reserved memory. What a run does not know is left out.
[[nodiscard]] std::vector<std::string> compare_answer(const CompareReport& report);

/// "exposed communication": in the table and in sentences.
[[nodiscard]] std::string cause_title(TimeCause cause);

}  // namespace foreshard::cli
