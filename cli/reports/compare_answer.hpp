// The first lines of compare's answer: what changed, by how much, and why. Used by compare_report. Pure.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "cli/reports/compare_report.hpp"

namespace foreshard::cli {

/// A part of the difference of two steps, B − A, by the words of `plan`: compute, exposed communication, host, other,
/// untraced; and the model's bias, with these parts of its own.
struct StepPart {
  std::string name;
  Nanoseconds difference;
  Nanoseconds contention;  ///< of `difference`; compute's only
  double printed_ms = 0;   ///< `difference` as it is printed: of both steps' parts as their table has them, so
  double printed_contention_ms = 0;  ///< that all parts add up to the printed difference; the same of `contention`
  std::vector<StepPart> parts = {};  ///< of the model's bias: what the recording's own plan differs from it by
};

/// All of them, the largest first, and the model's bias, where it is known, last: they add up to the difference of the
/// steps. Empty where a step is not known.
[[nodiscard]] std::vector<StepPart> step_parts(const Comparison& comparison);

/// One side of `rows` by TimeCause, ms with two decimals as all of compare has them: differences are of these, in the
/// first line, in every table and in JSON's `printed_difference`.
using PrintedCauses = std::array<double, EnumNames<TimeCause>::kNames.size()>;
[[nodiscard]] PrintedCauses printed_causes(const std::vector<BreakdownRow>& rows, Nanoseconds BreakdownRow::*side);

/// One line each, without an end of line: the models where they differ, the step with step_parts(), what is or may be
/// the model's bias in it, the peak of reserved memory. What a run does not know is left out.
[[nodiscard]] std::vector<std::string> compare_answer(const CompareReport& report);

/// Of a side: "the plan has jitter (--jitter …): its step and peak are without jitter".
[[nodiscard]] std::string not_in_run_line(const NotInRun& one);

/// "exposed communication", "model's bias": in the table and in sentences.
[[nodiscard]] std::string cause_title(TimeCause cause);

}  // namespace foreshard::cli
