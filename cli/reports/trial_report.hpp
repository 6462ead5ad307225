// How the trials of a job with jitter are told: in one line, as tables, and as JSON.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "cli/terminal/output.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/trial_times.hpp"

namespace foreshard::cli {

/// The distribution beside the step without chance, and who is waited for.
[[nodiscard]] std::string trials_line(const sim::TrialTimes& trials, double step_ms);

/// Where ranks draw lengths: the distribution, what of it equal lengths would take, and what that costs.
[[nodiscard]] std::string lengths_line(const sim::TrialTimes& trials);
/// Then, in front of the step whose samples are all as long: "if all samples had 2048 tokens: "; of 0 empty.
[[nodiscard]] std::string if_longest(std::uint32_t longest);

/// "(72.75 to 83.69)": ends of an interval of a step in ms, four digits, or all before the point.
[[nodiscard]] std::string interval_words(double low_ms, double high_ms);

void print_trials(std::ostream& out, const sim::TrialTimes& trials);

/// Key `trials` of plan's JSON (docs/plan.md); `step_ms` as of trials_line().
[[nodiscard]] Json trials_json(const sim::TrialTimes& trials, double step_ms);

}  // namespace foreshard::cli
