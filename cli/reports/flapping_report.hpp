// How a plan says what a link that flaps costs.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "core/run/run.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::cli {

/// The steps of a run in which it does, and their rate, beside those in which it does not; or that the job ends. Of a
/// plan with Prediction::flapping.
[[nodiscard]] std::string flapping_line(const sim::Prediction& p);

/// The answer of a job that it ends: that, when, and what is lost. Of a plan with FlappingTimes::job_end.
[[nodiscard]] std::vector<std::string> link_end_lines(const sim::Prediction& p);

/// flapping_line() with its numbers, as a plan's `flapping`; null of a plan without.
[[nodiscard]] Json flapping_json(const sim::Prediction& p);

/// What stands before the step of a run that is the job's while its links are up; empty of every other plan.
inline constexpr const char* kLinksUp = "while no link is down: ";

/// `flapping` of a stored plan; null: it has none.
[[nodiscard]] Json stored_flapping(const Run& run);

}  // namespace foreshard::cli
