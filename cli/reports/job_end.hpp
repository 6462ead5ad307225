// How a planned job ends before its time: a rank that issues nothing, a schedule that deadlocks, a link that is down
// for longer than NCCL tries. Every verb's answer to it begins with that. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "core/run/run.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::cli {

/// How, when, and what is lost, one line each; none of a job that goes on.
[[nodiscard]] std::vector<std::string> end_lines(const sim::Prediction& p);

/// The same as a plan's `ends`, null of a job that goes on; and of a stored run, as plan_end() (core/run).
[[nodiscard]] Json end_json(const sim::Prediction& p);
[[nodiscard]] Json stored_end_json(const Run& run);

}  // namespace foreshard::cli
