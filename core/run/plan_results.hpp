// What the answers that a plan left in its run (Run::results) say of that run: numbers, and whether it came to its end.
//
// Who: whatever reports a stored run's steps. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/run/run.hpp"

namespace foreshard {

/// The answer under a key, where it is a number.
[[nodiscard]] std::optional<double> result_number(const Run& run, const std::string& key);

/// What kept a plan from its end: "ran out of memory" or "deadlocks"; empty: nothing did, or it is no plan. None of the
/// steps of such a run has a time: it was simulated once, without the host's calibration, and its first ones are the
/// start of the process.
[[nodiscard]] std::string_view plan_failure(const Run& run);

/// Of a plan that ran out of memory the step in which it did, up to the failed request, with the peaks until then;
/// index −1: before the first step. None: it did not.
[[nodiscard]] std::optional<StepRecord> out_of_memory_step(const Run& run);

}  // namespace foreshard
