// The first lines of explain --time: why the step is not faster. Of a recording whose profiler slowed it, of the step
// without the profiler. Used by time_report, time_json and the page. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/reports/time_report.hpp"

namespace foreshard::cli {

/// The step that an import measured without a profiler, where the profiled one takes 5 % longer and more; none of
/// recordings whose steps differ.
[[nodiscard]] std::optional<double> clean_step_ms(const Run& run, const TimeExplanation& time);

/// One line each, without a full stop.
[[nodiscard]] std::vector<std::string> time_answer(const TimeReport& report);

/// The same in one line, for where the run and its step are named already.
[[nodiscard]] std::string answer_text(const TimeReport& report);

/// The step whose causes count: the plan of the step without the profiler, where there is one; else the run's own.
[[nodiscard]] const Run& diagnosed_run(const TimeReport& report);
[[nodiscard]] const TimeExplanation& diagnosed_time(const TimeReport& report);

}  // namespace foreshard::cli
