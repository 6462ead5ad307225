// What another job on the fabric costs this one, in one line and as JSON.
#pragma once

#include <string>

#include "cli/terminal/output.hpp"
#include "core/run/run.hpp"
#include "sim/predict/beside.hpp"

namespace foreshard::cli {

/// `step_ms`: without the other job.
[[nodiscard]] std::string beside_line(const sim::BesideTimes& beside, double step_ms);

/// What a stored plan says of it: beside_json(); null: nothing.
[[nodiscard]] Json stored_beside(const Run& run);

/// Key `beside` of plan's JSON (docs/plan.md).
[[nodiscard]] Json beside_json(const sim::BesideTimes& beside, double step_ms);

}  // namespace foreshard::cli
