// What a step takes at least, as text and JSON. Who: explain --time. Pure text; equal input gives equal bytes.
#pragma once

#include <ostream>
#include <string_view>

#include "cli/terminal/output.hpp"
#include "sim/roofline/roofline.hpp"

namespace foreshard::cli {

/// The key "roofline" of `explain --time --json` (docs/explain.md).
[[nodiscard]] Json roofline_json(const sim::Roofline& roofline);

/// A table, a row a kind of work. `step`: the one it is of; `step_name`: "step", "profiled step".
void print_roofline(std::ostream& out, const sim::Roofline& roofline, const TimeExplanation& step,
                    std::string_view step_name);

}  // namespace foreshard::cli
