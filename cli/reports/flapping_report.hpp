// How a plan says what a link that flaps costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "core/run/run.hpp"
#include "sim/predict/flapping.hpp"

namespace foreshard::cli {

/// The steps of a run in which it does beside those in which it does not, or that the job ends.
[[nodiscard]] std::string flapping_line(const sim::FlappingTimes& flapping);

/// The answer of a job that it ends: that, when, and what is lost. Of one with a FlappingTimes::job_end.
[[nodiscard]] std::vector<std::string> job_end_lines(const sim::FlappingTimes& flapping, std::uint32_t world);

/// The same, as a plan's `flapping`.
[[nodiscard]] Json flapping_json(const sim::FlappingTimes& flapping);

/// `flapping` of a stored plan; null: it has none.
[[nodiscard]] Json stored_flapping(const Run& run);

}  // namespace foreshard::cli
