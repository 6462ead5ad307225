// One simulated change of settings as JSON: of `explain`, and of a plan that ran out of memory (docs/explain.md).
#pragma once

#include <string>

#include "cli/terminal/output.hpp"
#include "sim/sweep/remedies.hpp"

namespace foreshard::cli {

[[nodiscard]] Json remedy_json(const sim::Remedy& remedy);

/// The sizes that a search for the largest one simulated: `value`, `fits`, `peak_reserved_bytes`, `refusal`.
[[nodiscard]] Json tried_json(const sim::LargestFit& found);

/// What stands behind its numbers in a table: "may not fit", "not valid", both or nothing.
[[nodiscard]] std::string remedy_marks(const sim::Remedy& remedy);
/// "takes 1.22 TiB of each host's memory (9.76 TiB in all)": of one under CPU offload.
[[nodiscard]] std::string host_memory_words(const sim::Remedy& remedy);

/// The time, or null without one.
[[nodiscard]] Json step_ms(bool has_time, double ms);

}  // namespace foreshard::cli
