// The tables of explain --time: causes, phases, the longest intervals, the critical path, where the host was late. Used
// by time_report. Pure text; equal input gives equal bytes.
#pragma once

#include <ostream>
#include <string_view>
#include <vector>

#include "core/explain_time/critical_path.hpp"
#include "core/explain_time/time_explanation.hpp"
#include "core/run/run.hpp"

namespace foreshard::cli {

/// `step`: what its heading calls the step. Without `detail` the eight causes that take most.
void print_causes(std::ostream& out, const Run& run, const TimeExplanation& e, std::string_view step, bool detail);
void print_phases(std::ostream& out, const Run& run, const TimeExplanation& e);
/// With what each waited for.
void print_longest(std::ostream& out, const Run& run, const TimeExplanation& e);
void print_path(std::ostream& out, const Run& run, const TimeExplanation& e, const std::vector<PathRow>& path);
/// Phases and units in which the host was late for longest; nothing where it never was.
void print_host(std::ostream& out, const Run& run, const TimeExplanation& e);

}  // namespace foreshard::cli
